"""When each job was asked for, entered and left: one file that all processes of a trial write to.

A moment costs a microsecond and no I/O, in any thread or process: one ruler for every tool.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path
from typing import Final

WIDTH: Final = 8


class Column(IntEnum):
    ASKED = 0
    ENTERED = 1
    LEFT = 2
    ENTRIES = 3  # how often the job was entered


class Moments:
    """Nanoseconds of the machine's monotonic clock, by job; 0 is "not yet".

    There is room for one job more than are measured: the one that warms up, whose number is `jobs`.
    """

    def __init__(self, path: Path, jobs: int) -> None:
        self._rows = jobs + 1
        with path.open("r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    @classmethod
    def create(cls, path: Path, jobs: int) -> Moments:
        path.write_bytes(bytes(WIDTH * len(Column) * (jobs + 1)))
        return cls(path, jobs)

    def ask(self, number: int, moment: int) -> None:
        self._cells[Column.ASKED * self._rows + number] = moment

    def enter(self, number: int, moment: int) -> None:
        self._cells[Column.ENTERED * self._rows + number] = moment
        self._cells[Column.ENTRIES * self._rows + number] += 1

    def leave(self, number: int, moment: int) -> None:
        self._cells[Column.LEFT * self._rows + number] = moment

    def of(self, column: Column) -> list[int]:
        """Of the jobs that are measured, by number."""
        begin = column * self._rows
        return self._cells[begin : begin + self._rows - 1].tolist()

    def of_warm_up(self, column: Column) -> int:
        return self._cells[(column + 1) * self._rows - 1]

    def count(self, column: Column) -> int:
        moments = self.of(column)
        return len(moments) - moments.count(0)
