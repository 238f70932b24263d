"""What the pattern of errors tells about a text that is looked for in them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs_admin.projection.error_patterns import LONGEST, Values, read_pattern
from jobs_admin.reads.error_search import Decision, ErrorSearch

KINDS = [
    ("no route", Values.DIGITS),
    ("order 17 at 12:30:01", Values.DIGITS),
    ("checksum 0f3ab9c2", Values.HEXADECIMAL),
    ("job 01m7jeezvjzst3qav997tp99ry", Values.BASE32),
    ("host kiosk17 is down", Values.WORD),
    ("keyerror: 'customer'", Values.QUOTED),
    ("keyerror: 'the customer'", Values.ANYTHING),
    ("503 " + "x" * LONGEST, Values.ANYTHING),
    ("two  spaces", Values.RESPACED),
    ("two\nlines", Values.RESPACED),
]


@pytest.mark.parametrize(("error", "kind"), KINDS)
def test_what_differs_in_errors_of_a_pattern_is_known(error: str, kind: Values) -> None:
    assert read_pattern(error).values is kind


FOUND = [
    ("bankdown: 503 for order 17", "BANKDOWN", Decision.ALL),
    ("bankdown: 503 for order 17", "503 for order", Decision.ALL),
    ("bankdown: 503 for order 17", "timeout", Decision.NONE),
    ("bankdown: 503 for order 17", "for order 99", Decision.SOME),
    ("bankdown: 503 for order 17", "for job 99", Decision.NONE),
    ("bankdown: 503 for order 17", "for order *", Decision.SOME),
    ("gone: job 01m7jeezvjzst3qav997tp99ry", "timeout", Decision.NONE),
    ("gone: job 01m7jeezvjzst3qav997tp99ry", "bank", Decision.SOME),
    ("gone: job 01m7jeezvjzst3qav997tp99ry", "the bank is", Decision.NONE),
    ("keyerror: 'customer'", "keyerror", Decision.ALL),
    ("keyerror: 'customer'", "bank", Decision.SOME),
    ("keyerror: 'customer'", "the bank", Decision.NONE),
    ("keyerror: 'the customer'", "the bank", Decision.SOME),
    ("two  spaces", "two spaces", Decision.SOME),
    ("two  spaces", "spaces", Decision.ALL),
]


@pytest.mark.parametrize(("error", "text", "found"), FOUND)
def test_a_text_is_decided_by_the_pattern_where_that_is_certain(
    error: str, text: str, found: Decision
) -> None:
    assert ErrorSearch(text).found_in(*read_pattern(error)) is found


_words = st.sampled_from(
    ["the", "bank", "a1", "503", "http", "status", "12from", "01m7jeez", "0f3a-b9c2", "kiosk17",
     "'a'", "'the b'", '"b7"', "x='q',17", "*", "10.0.0.7:5432", "ab_c4de", "größe", "٣٤", "can't",
     "l'a17", "(c-17)", "  ", "\n"]
)  # fmt: skip
_errors = st.lists(_words, max_size=8).map(" ".join) | st.text("ab1 '*.:-_", max_size=20)


@given(_errors, st.data())
@example("the 12from the bank7 b", None)
def test_no_error_that_has_a_text_is_said_to_be_without_it(
    error: str, data: st.DataObject | None
) -> None:
    folded = error.casefold()
    places = range(len(folded) + 1)
    if data is None:
        cuts = [(start, end) for start in places for end in places if start < end]
    else:
        start = data.draw(st.sampled_from(places))
        cuts = [(start, data.draw(st.integers(start, len(folded))))]
    for start, end in cuts:
        found = ErrorSearch(folded[start:end]).found_in(*read_pattern(folded))
        assert found is not Decision.NONE


@given(_errors, _errors, st.integers(0, 10), st.integers(0, 10))
def test_a_text_that_is_said_to_be_in_all_errors_of_a_pattern_is_in_each(
    one: str, other: str, start: int, length: int
) -> None:
    text = one.casefold()[start : start + length]
    if ErrorSearch(text).found_in(*read_pattern(other.casefold())) is Decision.ALL:
        assert text in other.casefold()
