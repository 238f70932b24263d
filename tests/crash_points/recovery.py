"""After the crash: others take over, as they would anywhere, until nothing is left to be done."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import orjson

from jobs_admin.config import AdminConfig
from jobs_admin.daemon import Daemon, serving
from jobs_admin.retention_policy import MIN_AGE
from tests.admin.upkeep_lab import clock, forget_heartbeats
from tests.chaos.checker import check
from tests.chaos.evidence import (
    busy_keys,
    differing,
    effects_in,
    entries_in,
    stored_times,
    unreadable_in,
    whole_log,
    work_left,
)
from tests.chaos.notebook import notes_in
from tests.chaos.observed import Observed
from tests.chaos.violation import Violation
from tests.crash_points.mill import LIMITS, mill
from tests.crash_points.parts import ARCHIVE, FILE, JUNK, config
from tests.crash_points.schedule_parts import check_ticks, is_busy, records
from tests.crash_points.stage import TIMEOUT, Stage
from tests.support.facts import DEADLINE
from tests.support.lab import Probe, probe
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry
from trellis_jobs.wire.events import decode

# A reservation that leads to no job is forgotten after a minute: for this daemon it has passed.
_LATER: Final = timedelta(seconds=90)
_POLL_INTERVAL: Final = 0.05


async def recover(stage: Stage) -> list[Violation]:
    """What is wrong although everybody had the time to put it right."""
    async with probe(stage.url) as raw:
        async with (
            mill(stage.folder, calm=True).connect(stage.url, connect_timeout=DEADLINE),
            serving(_config(stage), clock(_LATER)) as daemon,
        ):
            await forget_heartbeats(raw)
            await _until_quiet(raw, daemon)
        wrong = check_ticks(await whole_log(raw.connection), stage.folder)
        return [*wrong, *check(await _observe(raw, stage.folder))]


def _config(stage: Stage) -> AdminConfig:
    if stage.repairs_alarms:
        return config(stage.url, stage.folder)
    return config(stage.url, stage.folder, overdue_grace=timedelta(days=1))


async def _until_quiet(raw: Probe, daemon: Daemon) -> None:
    """Or until the time is up: then the checker reports what is left."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        with suppress(JobsError):  # a machine that is too busy to answer in time
            messages = await whole_log(raw.connection)
            last = messages[-1].sequence if messages else 0
            if daemon.progress.position >= last and not await _is_anything_left(raw, messages):
                return
        await asyncio.sleep(_POLL_INTERVAL)


async def _is_anything_left(raw: Probe, messages: Iterable[LogMessage]) -> bool:
    if any(map(is_busy, await records(raw))):
        return True
    if await work_left(raw.connection) or await busy_keys(raw.connection):
        return True
    newest = {entry.event.job: entry.status for entry in entries_in(messages)}
    return any(status is not None and not status.is_over for status in newest.values())


async def _observe(raw: Probe, folder: Path) -> Observed:
    messages = await whole_log(raw.connection)
    archived = {entry.sequence: entry for entry in _archived(folder / ARCHIVE)}
    every = archived | {entry.sequence: entry for entry in entries_in(messages)}
    return Observed(
        entries=[every[sequence] for sequence in sorted(every)],
        stored_at=stored_times(messages),
        unreadable=unreadable_in(each for each in messages if each.subject not in JUNK),
        acknowledged=frozenset(job_id for [job_id] in notes_in(folder / "promised")),
        effects=effects_in(_notes(folder)),
        limits=LIMITS,
        keys=await busy_keys(raw.connection),
        work_left=await work_left(raw.connection),
        differing={FILE: await differing(raw.connection, folder / FILE, _when(folder))},
    )


def _notes(folder: Path) -> Iterator[list[str]]:
    """Of all who worked, the dead ones too."""
    for path in folder.rglob("notes"):
        yield from notes_in(path)


def _when(folder: Path) -> datetime:
    """What was purged sooner than retention ever does is no surprise an hour later."""
    return utc_now() + (2 * MIN_AGE if (folder / ARCHIVE).exists() else timedelta())


def _archived(folder: Path) -> Iterator[Entry]:
    """Events that have left the log."""
    for path in folder.glob("*.gz"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            for event in orjson.loads(line)["events"]:
                job = JobAddress(event["service"], event["jobType"], event["jobId"])
                read = decode(orjson.dumps(event), expected=job, sequence=event["seq"])
                assert isinstance(read, Entry), read
                yield read
