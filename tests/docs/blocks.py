"""The code blocks of a page, and what their output looks like without what differs each time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Longest first where one could be taken for a part of another.
_CHANGING: Final = (
    (re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b"), "ULID"),
    (re.compile(r"\bnats://127\.0\.0\.1:\d+\b"), "NATS-URL"),
    (re.compile(r"\bnats-server \d[\w.]*"), "nats-server VERSION"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z\b"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min|h|d)( \d+ (s|min|h))?( ago)?(?!\w)|\bnow\b"), "SPAN"),
    (re.compile(r"/[\w./-]*/(?=\w+\.py\b)"), "FOLDER/"),
    (re.compile(r"[\w./-]+/(?=ULID\.csv)"), "FOLDER/"),
    (re.compile(r"[ ]+"), " "),
    (re.compile(r"[ ]+$", re.MULTILINE), ""),
)


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """A program that begins with `# app.py` is a file."""
        named = re.match(r"# ([\w/]+\.py)\b", self.text)
        return named[1] if named else None

    def commands(self) -> list[tuple[str, str]]:
        """Of a `console` block: what is typed after `$`, and what is printed."""
        found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", self.text, re.MULTILINE)
        return [(typed, printed) for typed, printed in found]


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]


def shape(printed: str) -> str:
    for changing, word in _CHANGING:
        printed = changing.sub(word, printed)
    return printed.strip()
