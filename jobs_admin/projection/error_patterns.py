"""What errors have in common: their text, with `*` for what tells one occurrence from another."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple

LONGEST: Final = 300
QUOTES: Final = frozenset("'\"`")
_SPACE: Final = re.compile(r"\s")
_QUOTED: Final = re.compile(r"""(?<!\w)(?:'[^']+'|"[^"]+"|`[^`]+`)(?!\w)""")
# Long words with a digit are ids (ULIDs, UUIDs, hexadecimal numbers); of short ones (c-17, utf8)
# the digits go. What hangs on to one goes with it: 10.0.0.7:5432, 12:30:01, the rest of a UUID.
_VALUE: Final = re.compile(r"(?:\b(?=[A-Za-z_]*\d)\w{6,}|\d\w*)(?:[.,:-]\w+)*")
# What a server answered tells errors apart, unlike other numbers.
_STATUS: Final = re.compile(r"[45]\d\d\W*")
_BEFORE_A_STATUS: Final = frozenset({"http", "status", "code"})


class Values(IntEnum):
    """What the `*` of a pattern stand for in one error, case folded: fewer characters come first.

    Up to WORD the error is its pattern with values instead of `*`, each value has a digit, and no
    other characters than VALUE_CHARACTERS says.
    """

    DIGITS = 1
    HEXADECIMAL = 2
    BASE32 = 3  # as in ULIDs
    WORD = 4
    QUOTED = 5  # like WORD, and quoted text without spaces
    ANYTHING = 6  # quoted text with spaces, or what comes after the first LONGEST characters
    RESPACED = 7  # the same, and spaces are not where the pattern has them


# Characters of values, as a set of a regular expression.
VALUE_CHARACTERS: Final = {
    Values.DIGITS: r"[0-9_.,:\-]",
    Values.HEXADECIMAL: r"[0-9a-f_.,:\-]",
    Values.BASE32: r"[0-9a-hjkmnp-tv-z_.,:\-]",
    Values.WORD: r"[\w.,:\-]",
}
_KINDS: Final = [(kind, re.compile(f"{each}*")) for kind, each in VALUE_CHARACTERS.items()]


class ErrorPattern(NamedTuple):
    text: str
    values: Values


def pattern_of(error: str) -> str:
    """The same for errors that differ only in ids, numbers and quoted values."""
    return read_pattern(error).text


def read_pattern(error: str) -> ErrorPattern:
    text, values = error[:LONGEST], list[str]()

    def star(value: re.Match[str]) -> str:
        values.append(value[0])
        return "*"

    if not QUOTES.isdisjoint(text):
        text = _QUOTED.sub(star, text)
    words, is_quoted = text.split(), bool(values)
    if " ".join(words) != text:
        kind = Values.RESPACED
    elif len(error) > LONGEST or any(_SPACE.search(value) for value in values):
        kind = Values.ANYTHING
    else:
        kind = Values.QUOTED if is_quoted else Values.DIGITS
    for index, word in enumerate(words):
        if not (word.isalpha() or _is_status(words, index)):
            words[index] = _VALUE.sub(star, word)
    if kind is Values.DIGITS and values:
        kind = _kind_of("".join(values))
    return ErrorPattern(" ".join(words), kind)


def _kind_of(values: str) -> Values:
    return next((kind for kind, only in _KINDS if only.fullmatch(values)), Values.WORD)


def _is_status(words: list[str], index: int) -> bool:
    """`HTTPError: 503 …`, `… status code: 404 …`."""
    if index == 0 or _STATUS.fullmatch(words[index]) is None:
        return False
    before = words[index - 1]
    starts = index == 1 and before.endswith(":")
    return starts or before.rstrip(":=").lower() in _BEFORE_A_STATUS
