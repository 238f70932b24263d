"""The fields that docs/reference/cli-json.md promises of a command's JSON."""

from __future__ import annotations

import re
from typing import Final

from tests.docs.blocks import ROOT

_PAGE: Final = ROOT / "docs" / "reference" / "cli-json.md"
_ROW: Final = re.compile(r"^\| `([a-z ]+)` \| (`\w+`(?:, `\w+`)*) \| (.*) \|$", re.MULTILINE)
_FIELD: Final = re.compile(r"`(\w+)`")


def documented(command: str) -> set[str]:
    """Of a list, also those of its entries, which its row tells."""
    found: set[str] = set()
    for named, fields, about in _ROW.findall(_PAGE.read_text(encoding="utf-8")):
        if named == command:
            found |= set(_FIELD.findall(fields))
            if about.startswith("for each"):
                found |= set(_FIELD.findall(about)) - {"null"}
    return found
