"""Decides from the pattern of errors whether a text is in all of them or in none.

An error is its pattern with values instead of `*`. A text that is in the pattern is in each of its
errors. A text is in none of them if no value with the characters that are known to occur could make
it fit. Otherwise the errors themselves have to be searched.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from jobs_admin.projection.error_patterns import QUOTES, VALUE_CHARACTERS, Values, pattern_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Decision(Enum):
    """In which errors of a pattern a text is found."""

    ALL = auto()
    NONE = auto()
    SOME = auto()  # in some, or in all, or in none of them


class ErrorSearch:
    """Searches for a text, ignoring case."""

    def __init__(self, text: str) -> None:
        self.text: Final = text.casefold()
        # Text in quotes that has no spaces; or a part of it, with one of the quotes.
        self._may_be_quoted: Final = " " not in self.text or not QUOTES.isdisjoint(self.text)
        self._fits: Final = {
            kind: re.compile("".join(_fitting(self.text, each)))
            for kind, each in VALUE_CHARACTERS.items()
        }

    def found_in(self, pattern: str | None, values: Values) -> Decision:
        """`pattern` and `values` describe case-folded errors. `pattern` is None for no error."""
        if pattern is None:
            return Decision.NONE
        if self.text in pattern and "*" not in self.text:
            is_split = values is Values.RESPACED and " " in self.text
            return Decision.SOME if is_split else Decision.ALL
        if values is Values.QUOTED and not self._may_be_quoted:
            values = Values.WORD
        fits = self._fits.get(values)
        if fits is None or fits.search(pattern):
            return Decision.SOME
        return Decision.NONE


@lru_cache(maxsize=10_000)
def pattern_of_example(error: str) -> str:
    """Cached, because the same examples of patterns are searched repeatedly."""
    return pattern_of(error)


def _fitting(text: str, value_character: str) -> Iterator[str]:
    """A regular expression for where in a pattern the text may be, some of it in values.

    Runs of characters that values may have are there as they are, or with `*` in them. Of a run
    within the text a value would be whole, so it has a digit.
    """
    for run in re.finditer(f"(?:{value_character})+|.", text, re.DOTALL):
        exactly, last = re.escape(run[0]), len(run[0]) - 1
        is_of_values = re.fullmatch(value_character, run[0][0]) is not None
        is_within = run.start() > 0 and run.end() < len(text)
        if not is_of_values or (is_within and not any(map(str.isdecimal, run[0]))):
            yield exactly
        else:
            one = "".join(sorted({re.escape(each) for each in run[0]}))
            some, more = f"[{one}]{{0,{last}}}", f"[{one}*]{{0,{last}}}"
            yield rf"(?:{exactly}|{some}\*{more})"
