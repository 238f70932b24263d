"""Writes a file completely or not at all, even if the process dies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel


class ReportFile(BaseModel):
    """The job's result: a reference to the file, with a checksum."""

    path: Path
    lines: int
    sha256: str


class Draft:
    finished: ReportFile

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.lines = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def add(self, line: str) -> None:
        text = f"{line}\n"
        self._file.write(text)
        self._hash.update(text.encode())
        self.lines += 1


@contextmanager
def writing(path: Path) -> Iterator[Draft]:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            draft = Draft(file)
            yield draft
        unfinished.replace(path)
        draft.finished = ReportFile(path=path, lines=draft.lines, sha256=draft.sha256)
    finally:
        unfinished.unlink(missing_ok=True)
