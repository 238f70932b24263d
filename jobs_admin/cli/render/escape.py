"""Text from jobs, made harmless for a terminal.

Errors, keys, log lines and names are written by services. Printed as they are, they could set the
terminal's title, fill its clipboard, move its cursor, or show words in another order than they are
stored. Everything that this package prints or logs passes through one of these two functions.
"""

from __future__ import annotations

import re
from typing import Final

# Control characters but tab and newline (Cc), format characters that are invisible or turn the
# direction of text (Cf), separators that end a line (Zl, Zp), surrogates that no encoding takes
# (Cs), and letters and marks that are drawn as nothing.
_C0: Final = "\x00-\x08\x0b-\x1f"
_OTHERS: Final = (
    "\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_ANYWHERE: Final = re.compile(f"[{_C0}{_OTHERS}]")
_IN_ONE_LINE: Final = re.compile(f"[\t\n{_C0}{_OTHERS}]")
# In encoded JSON, control characters below space are layout: inside strings they are escaped.
_IN_JSON: Final = re.compile(f"[{_OTHERS}]")


def harmless(text: str, *, one_line: bool = False) -> str:
    """Show each dangerous character as an escape such as `\\x1b` or `\\u202e`.

    Tabs and newlines stay, unless the text has to stay in one line.
    """
    return (_IN_ONE_LINE if one_line else _ANYWHERE).sub(_shown, text)


def harmless_json(encoded: str) -> str:
    """The same document, with dangerous characters as `\\uXXXX`: it is read back unchanged."""
    return _IN_JSON.sub(_in_json, encoded)


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _in_json(found: re.Match[str]) -> str:
    utf16 = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{utf16[at : at + 4]}" for at in range(0, len(utf16), 4))
