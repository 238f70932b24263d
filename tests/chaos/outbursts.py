"""Errors that a process only wrote down: log records with a traceback, and what asyncio says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tests.chaos.actors import Actor, Kind

_BEGINS: Final = re.compile(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d[.,]\d{3} ")
_MARKS: Final = ("Traceback (most recent call last)", "Task was destroyed but it is pending")
# A job that failed or died: its traceback is the handler's.
_OUTCOME: Final = re.compile(r" job \S+ of \S+/\S+ (?:died|failed) ")
# How SQLite, and the system, say that no byte can be written any more.
_FULL: Final = ("disk I/O error", "database or disk is full", "File too large")


def outbursts_of(actors: Iterable[Actor]) -> list[str]:
    """One that never got ready may say why, and is started again."""
    return [
        f"{actor.name}: {said}"
        for actor in actors
        for folder in actor.folders
        if actor.is_ready(folder)
        for said in outbursts_in((folder / "output").read_text(errors="replace"))
        if not (actor.kind is Kind.DAEMON and any(word in said for word in _FULL))
    ]


def outbursts_in(output: str) -> list[str]:
    """What was said, and the error, in one line each."""
    return [
        f"{lines[0]} … {lines[-1]}"
        for lines in _records(output)
        if any(mark in line for line in lines for mark in _MARKS) and not _OUTCOME.search(lines[0])
    ]


def _records(output: str) -> Iterator[list[str]]:
    record: list[str] = []
    for line in filter(None, output.splitlines()):
        if record and _BEGINS.match(line):
            yield record
            record = []
        record.append(line)
    if record:
        yield record
