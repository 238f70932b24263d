"""A statement that writes many rows in one execution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_MAX_ROWS: Final = 512


@dataclass(frozen=True, slots=True)
class BulkStatement:
    """`before` and `after` are the SQL around the rows, `columns` is the number of their values.

    executemany() is one execution for each row. Every execution lets other threads run and then
    waits for the lock again, so a batch needs few executions.
    """

    before: str
    columns: int
    after: str = ""

    def execute(self, database: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Use powers of two, so that a connection soon has every statement prepared."""
        start = 0
        while start < len(rows):
            size = min(_MAX_ROWS, 1 << (len(rows) - start).bit_length() - 1)
            values = tuple(chain.from_iterable(rows[start : start + size]))
            database.execute(_statement(self, size), values)
            start += size


@cache
def _statement(of: BulkStatement, size: int) -> str:
    row = f"({', '.join('?' * of.columns)})"
    return f"{of.before} VALUES {', '.join([row] * size)} {of.after}"
