"""What commands look like on a terminal: lines that fit, colours, bars, an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cli.library import Library, library
from tests.cli.shell import Ended

_ID: Final = r"[0-9A-Z]{26}"
_COLOURED: Final = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|9[0-7])[;0-9]*m")
_BAR: Final = "━"


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with library(tmp_path_factory.mktemp("library")) as made:
        yield made


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("jobs", "logs", "TORN"), r"info +opening torn"),
        (("workers", "list"), r"1 worker registered, or seen in the last 90 s"),
        (("projection", "ignored"), rf"library/lend +{_ID} +completed +not JSON"),
        (("projection", "status", "--db", "DB"), r"fits +yes\n"),
        (("projection", "verify", "--db", "DB"), r"jobs_projection +3 +0 +0\n"),
        (("projection", "rebuild", "--db", "DB"), r"messages of the log, up to sequence \d+"),
        (("admin", "due", "--db", "DB"), r"retention would remove 0 jobs now"),
        (("queues", "pause", "library/index", "--reason", "x", "--for", "1h"), "paused for 1 h;"),
        (("queues", "resume", "library/index"), "library/index is resumed"),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, tuple) else "",
)
def test_what_is_shown_fits_the_terminal(
    books: Library, command: tuple[str, ...], says: str
) -> None:
    filled = {"TORN": books.torn, "DB": str(books.stage.db)}
    shown = books.stage.at_terminal(*(filled.get(word, word) for word in command))
    assert shown.code == 0, shown.plain
    assert re.search(says, shown.plain), shown.plain
    after_the_bar = shown.plain.rpartition(_BAR)[2].splitlines()[1:] or shown.plain.splitlines()
    assert all(len(line) <= 80 for line in after_the_bar if str(books.stage.db) not in line)


@pytest.mark.parametrize(
    ("verb", "done"),
    [
        (("dlq", "replay", "--error", "burst pipe"), "replayed 3 jobs"),
        (("jobs", "cancel", "--type", "single"), "cancelled 3 jobs"),
        (("jobs", "retry", "--error", "leak"), "retried 2 jobs"),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, tuple) else "",
)
def test_a_change_of_many_shows_which_asks_and_draws_a_bar(
    books: Library, verb: tuple[str, ...], done: str
) -> None:
    """Those that are replayed first are cancelled next: no worker takes them."""
    if verb[1] != "cancel":
        books.stage.dead(*(["burst pipe"] * 3 if "burst pipe" in verb else ["a leak"] * 2))
    shown = books.stage.at_terminal(*verb, types="y\n")
    assert shown.code == 0, shown.plain
    assert f"{verb[1].capitalize()} {done.split()[1]} jobs? [y/N]" in shown.plain
    assert _BAR in shown.plain
    assert shown.plain.rstrip().endswith(done)


def colours(shown: Ended) -> bool:
    return _COLOURED.search(shown.out) is not None


@pytest.mark.parametrize("command", [("jobs", "list"), ("jobs", "list", "--nope")], ids=" ".join)
def test_colours_are_for_terminals_and_not_where_no_color_is_set(
    books: Library, command: tuple[str, ...]
) -> None:
    assert colours(books.stage.at_terminal(*command))
    assert not colours(books.stage.at_terminal(*command, env={"NO_COLOR": "1"}))
    piped = books.stage.shell(*command)
    assert "\x1b" not in piped.out + piped.err
