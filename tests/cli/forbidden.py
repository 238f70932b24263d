"""What no terminal may get from a job, found independently of the code that takes it out."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Sets a terminal's title, fills its clipboard, clears it, moves its cursor, turns text around.
HOSTILE: Final = (
    "\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x1b\\\x1b[2J\x1b[H\x9b31mred\x7f\r\x08\u202egnp.exe\u202c"
    "\u2066\u2028forged\u2029\u200bzero\u200d\ufeff\U000e0041end"
)
_STYLING: Final = re.compile(r"\x1b\[[0-9;]*m")
# What rich sends to draw a live screen or a bar: cursor, lines, the alternate screen.
_DRAWING: Final = re.compile(r"\x1b\[(?:[0-9;]*[mAHJK]|\?(?:25|1049)[hl])|\r")
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def is_forbidden(character: str) -> bool:
    if character in "\t\n":
        return False
    return character in _INVISIBLE or unicodedata.category(character) in _CATEGORIES


def forbidden_in(text: str) -> set[str]:
    return set(filter(is_forbidden, text))


def forbidden_in_styled(text: str) -> set[str]:
    """Colours are ours; what a job says can bring none, as its escapes are made visible."""
    return forbidden_in(_STYLING.sub("", text))


def forbidden_on_screen(text: str) -> set[str]:
    """The same on a live screen."""
    return forbidden_in(_DRAWING.sub("", text))
