"""Escape control characters in text from jobs before it is printed.

Services write errors, keys, log lines and names. Printed unescaped, they could set the terminal's
title, fill its clipboard, move its cursor, or reorder the displayed text. Everything that the
command line prints or logs passes through one of these two functions.
"""

from __future__ import annotations

import re
from typing import Final

# Control characters except tab and newline (Cc), format characters that are invisible or change the
# direction of text (Cf), line and paragraph separators (Zl, Zp), surrogates (Cs), which cannot be
# encoded, and letters and marks that are drawn as blank space.
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
# In encoded JSON, control characters below space are only layout: in strings they are escaped.
_IN_JSON: Final = re.compile(f"[{_OTHERS}]")


def harmless(text: str, *, one_line: bool = False) -> str:
    """Show each dangerous character as an escape such as `\\x1b` or `\\u202e`.

    Tabs and newlines are kept, unless the text must stay on one line.
    """
    return (_IN_ONE_LINE if one_line else _ANYWHERE).sub(_shown, text)


def harmless_json(encoded: str) -> str:
    """Escape dangerous characters as `\\uXXXX`; the document still decodes to the same values."""
    return _IN_JSON.sub(_in_json, encoded)


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _in_json(found: re.Match[str]) -> str:
    utf16 = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{utf16[at : at + 4]}" for at in range(0, len(utf16), 4))
