"""However a message is corrupt, it is read or refused: no decoder breaks, hangs or makes things up.

`make fuzz` tries many more, with another seed each time; a failure names the seed and the input.
"""

from __future__ import annotations

import pytest

from tests.fuzz.block_decoders import BLOCK_DECODERS
from tests.fuzz.decoders import DECODERS, Decoder
from tests.fuzz.mutations import Mutator
from tests.fuzz.quantity import INPUTS, SEED
from tests.fuzz.text_decoders import TEXT_DECODERS, TextDecoder


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
@pytest.mark.timeout(600)
def test_whatever_comes_in_is_read_or_refused(decoder: Decoder) -> None:
    mutator = Mutator(SEED)
    for number in range(INPUTS):
        data = mutator.message(decoder.seeds)
        try:
            decoder.decode(data)
        except Exception as error:
            error.add_note(f"seed {SEED}, input {number}: {data!r}")
            raise


@pytest.mark.parametrize("decoder", BLOCK_DECODERS, ids=lambda decoder: decoder.name)
@pytest.mark.timeout(600)
def test_whatever_a_server_sends_is_read_or_refused(decoder: Decoder) -> None:
    mutator = Mutator(SEED)
    for number in range(INPUTS):
        data = mutator.block(decoder.seeds)
        try:
            decoder.decode(data)
        except Exception as error:
            error.add_note(f"seed {SEED}, input {number}: {data!r}")
            raise


@pytest.mark.parametrize("decoder", TEXT_DECODERS, ids=lambda decoder: decoder.name)
@pytest.mark.timeout(600)
def test_whatever_words_come_in_are_understood_or_refused(decoder: TextDecoder) -> None:
    mutator = Mutator(SEED)
    for number in range(INPUTS):
        text = mutator.text(decoder.seeds)
        try:
            decoder.decode(text)
        except Exception as error:
            error.add_note(f"seed {SEED}, input {number}: {text!r}")
            raise
