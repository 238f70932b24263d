"""`make words` finds words of the old dialect and names the better one."""

from __future__ import annotations

import pytest

from tools.plain_words import CHECKED, ROOT, findings, main


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("whoever took one waits", "whoever"),
        ("a connection of its own", "of its own"),
        ("_PATIENCE: Final = 3", "PATIENCE"),
        ("patience: float = 3", "patience"),
        ("it is read anew", "anew"),
        ("a seat for each job", "seat"),
        ("the worker renews its lease", None),
        ("a helpdesk for seating plans", None),
    ],
)
def test_a_word_that_has_a_plainer_one_is_found(line: str, word: str | None) -> None:
    assert [found for _, found, _ in findings(line)] == ([] if word is None else [word])


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("a key of its own for each service", "of its own"),
        ("the worker goes on", "goes on"),
        ("`JobRef.patience` is now `JobRef.request_timeout`", None),
    ],
)
def test_pages_are_checked_for_more_words_but_may_quote_names(line: str, word: str | None) -> None:
    found = [found for _, found, _ in findings(line, is_page=True)]
    assert found == ([] if word is None else [word])


def test_everything_that_is_checked_exists_and_is_plain() -> None:
    assert [path for path in CHECKED if not (ROOT / path).exists()] == []
    assert main() == 0
