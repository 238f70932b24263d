"""What a projection's file holds besides rows: its tables and indexes, as the scripts make them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import aiosqlite

SCHEMA_VERSION: Final = 15
_MADE: Final = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"


def tables_script() -> str:
    return _script("schema.sql")


def indexes_script() -> str:
    return _script("indexes.sql")


async def lacking(database: aiosqlite.Connection) -> list[str]:
    """Tables and indexes that are not there, or not as they were made."""
    found = {(str(name), str(sql)) for name, sql in await database.execute_fetchall(_MADE)}
    return sorted(name for name, _ in _expected() - found)


@cache
def _expected() -> frozenset[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(tables_script() + indexes_script())
        return frozenset(database.execute(_MADE))


def _script(name: str) -> str:
    return files("jobs_admin.projection").joinpath(name).read_text(encoding="utf-8")
