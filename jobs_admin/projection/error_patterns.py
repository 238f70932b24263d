"""What errors have in common: their text, with `*` for what tells one occurrence from another."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 300
_QUOTES: Final = frozenset("'\"`")
_QUOTED: Final = re.compile(r"""(?<!\w)(?:'[^']+'|"[^"]+"|`[^`]+`)(?!\w)""")
# Long words with a digit are ids (ULIDs, UUIDs, hexadecimal numbers); of short ones (c-17, utf8)
# the digits go. What hangs on to one goes with it: 10.0.0.7:5432, 12:30:01, the rest of a UUID.
_VALUE: Final = re.compile(r"(?:\b(?=[A-Za-z_]*\d)\w{6,}|\d\w*)(?:[.,:-]\w+)*")
# What a server answered tells errors apart, unlike other numbers.
_STATUS: Final = re.compile(r"[45]\d\d\W*")
_BEFORE_A_STATUS: Final = frozenset({"http", "status", "code"})


def pattern_of(error: str) -> str:
    """The same for errors that differ only in ids, numbers and quoted values."""
    text = error[:LONGEST]
    if not _QUOTES.isdisjoint(text):
        text = _QUOTED.sub("*", text)
    words = text.split()
    for place, word in enumerate(words):
        if not (word.isalpha() or _is_status(words, place)):
            words[place] = _VALUE.sub("*", word)
    return " ".join(words)


def _is_status(words: list[str], place: int) -> bool:
    """`HTTPError: 503 …`, `… status code: 404 …`."""
    if place == 0 or _STATUS.fullmatch(words[place]) is None:
        return False
    before = words[place - 1]
    starts = place == 1 and before.endswith(":")
    return starts or before.rstrip(":=").lower() in _BEFORE_A_STATUS
