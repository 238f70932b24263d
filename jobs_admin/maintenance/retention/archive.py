"""Archives jobs that leave the log as JSON lines in gzip, in one file per day and service.

A line holds the job in its end state and all its events. Lines are only added, so a job may have
several: one for each time that it was removed, if it was retried in between, and duplicates after
a crash or from another replica. Events with the same `seq` are the same.
"""

from __future__ import annotations

import asyncio
import gzip
import os
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from jobs_admin.private_files import make_folder, owner_only
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import jobs
from trellis_jobs.wire.event_redaction import redact
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from pathlib import Path

    from trellis_jobs.model.job import Entry, Job


class Archive(Protocol):
    """Stores histories before they are purged."""

    async def keep(self, histories: Sequence[tuple[Job, Sequence[Entry]]], day: date) -> None: ...


class NoArchive:
    async def keep(self, histories: Sequence[tuple[Job, Sequence[Entry]]], day: date) -> None:
        """Store nothing, because no archive is configured."""


class FolderArchive:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, histories: Sequence[tuple[Job, Sequence[Entry]]], day: date) -> None:
        """Write the histories; they are synced to disk when this returns."""
        by_service: dict[str, list[bytes]] = {}
        for job, history in histories:
            by_service.setdefault(job.address.service, []).append(_line(job, history))
        for service, lines in by_service.items():
            path = self._folder / f"{day.isoformat()}-{service}.jsonl.gz"
            await asyncio.to_thread(_add, path, b"".join(lines))


def _line(job: Job, history: Sequence[Entry]) -> bytes:
    body: dict[str, Any] = {
        "job": jobs.to_json(job),
        "lastSeq": history[-1].sequence,
        "events": [
            {
                "seq": entry.sequence,
                **_event_json(entry, job),
            }
            for entry in history
        ],
    }
    return dumps(body) + b"\n"


def _event_json(entry: Entry, job: Job) -> dict[str, Any]:
    """Encode the event without secrets, which must not outlive the log."""
    return redact(orjson.loads(wire.encode(entry.event, entry.status or job.status, None)))


def _add(path: Path, lines: bytes) -> None:
    """Append a gzip member; a gzip file may have any number of them."""
    make_folder(path.parent)
    with open(path, "ab", opener=owner_only) as file:
        file.write(gzip.compress(lines))
        file.flush()
        os.fsync(file.fileno())
