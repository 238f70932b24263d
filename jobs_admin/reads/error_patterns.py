"""What errors have in common: their text, with `*` for what tells one occurrence from another."""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 300
_KEPT: Final = (
    # What a server said: it tells errors apart, unlike other numbers.
    r"(?:\b(?:http|status|code)\W{0,3}\d{3}\b|^\w+: [45]\d\d\b)"
)
_VARIES: Final = (
    r"(?<!\w)'[^']{1,200}'(?!\w)",
    r'(?<!\w)"[^"]{1,200}"(?!\w)',
    r"(?<!\w)`[^`]{1,200}`(?!\w)",
    # UUIDs, hexadecimal numbers, ULIDs and other ids: long words with a digit in them.
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    r"\b(?=[a-z_]*\d)\w{6,}\b",
    # 17, 1.5, 1,000, 12:30:01
    r"\d+(?:[.,:]\d+)*",
)
_PATTERN: Final = re.compile(f"({_KEPT})|{'|'.join(_VARIES)}", re.IGNORECASE)


def pattern_of(error: str) -> str:
    """The same for errors that differ only in ids, numbers and quoted values."""
    return _PATTERN.sub(_kept, " ".join(error[:_LONGEST].split()))


def _kept(found: re.Match[str]) -> str:
    return found[1] or "*"
