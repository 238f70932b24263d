"""What a process did, a line at a time, in a file that outlives it."""

from __future__ import annotations

import os
from pathlib import Path


class Notebook:
    """A line is written at once and whole, unless the process is killed in the middle of it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, *words: str) -> None:
        os.write(self._file, " ".join(words).encode() + b"\n")


def notes_in(path: Path) -> list[list[str]]:
    """The complete lines, word by word."""
    text = path.read_text() if path.exists() else ""
    return [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
