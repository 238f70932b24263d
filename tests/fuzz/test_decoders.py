"""However a message is spoilt, it is read or refused: no decoder breaks, hangs or makes things up.

`make fuzz` tries many more, with another seed each time; a failure names the seed and the input.
"""

from __future__ import annotations

import pytest

from tests.fuzz.block_doors import BLOCK_DOORS
from tests.fuzz.doors import DOORS, Door
from tests.fuzz.mutations import Mutator
from tests.fuzz.quantity import INPUTS, SEED
from tests.fuzz.word_doors import WORD_DOORS, WordDoor


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
@pytest.mark.timeout(600)
def test_whatever_comes_in_is_read_or_refused(door: Door) -> None:
    mutator = Mutator(SEED)
    for number in range(INPUTS):
        data = mutator.message(door.seeds)
        try:
            door.enter(data)
        except Exception as error:
            error.add_note(f"seed {SEED}, input {number}: {data!r}")
            raise


@pytest.mark.parametrize("door", BLOCK_DOORS, ids=lambda door: door.name)
@pytest.mark.timeout(600)
def test_whatever_a_server_sends_is_read_or_refused(door: Door) -> None:
    mutator = Mutator(SEED)
    for number in range(INPUTS):
        data = mutator.block(door.seeds)
        try:
            door.enter(data)
        except Exception as error:
            error.add_note(f"seed {SEED}, input {number}: {data!r}")
            raise


@pytest.mark.parametrize("door", WORD_DOORS, ids=lambda door: door.name)
@pytest.mark.timeout(600)
def test_whatever_words_come_in_are_understood_or_refused(door: WordDoor) -> None:
    mutator = Mutator(SEED)
    for number in range(INPUTS):
        text = mutator.text(door.seeds)
        try:
            door.enter(text)
        except Exception as error:
            error.add_note(f"seed {SEED}, input {number}: {text!r}")
            raise
