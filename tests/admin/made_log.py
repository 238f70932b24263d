"""Logs made up for projections: messages as the stream would hand them out, without a stream."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from jobs_admin.projection.metadata import FILLED_AT
from jobs_admin.projection.rows import microseconds
from tests.given import NOON, REPORT, created, histories, status_in
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.reducer import RULES, Illegal, advance
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h
from trellis_jobs.wire import presence

BILLING: Final = JobAddress("billing", "send-invoice", "01JQEXAMP1E0000000000000BB")
TABLES: Final = (
    "projection_metadata",
    "jobs_projection",
    "job_logs",
    "job_values",
    "job_counts",
    "change_counts",
    "key_counts",
    "error_counts",
    "group_counts",
    "group_value_counts",
    "group_version_counts",
    "group_change_counts",
    "job_activity",
    "hourly_activity",
    "state_changes",
    "attempt_durations",
    "worker_presence_projection",
    "ignored_events",
    "operator_actions",
    "undecodable_messages",
)


class Scribe:
    """Writes events as services would, one sequence after the other, at the server's time."""

    def __init__(self, at: datetime = NOON) -> None:
        self.messages: list[LogMessage] = []
        self._at = at
        self._status: dict[JobAddress, JobStatus] = {}

    def write(self, *events: e.Event) -> Scribe:
        for event in events:
            before = self._status.get(event.job)
            moved = advance(before, event)
            sequence = len(self.messages) + 1
            if isinstance(moved, Illegal):
                # As a runtime would that believes something else of the job, and names no run.
                said = status_in(RULES[event.kind].leads_to or JobState.PENDING, run=0)
            else:
                said = self._status[event.job] = moved.recorded_at(sequence)
            data = wire.encode(event, said, before.state if before else None)
            self.add(subjects.lifecycle(event.job, event.kind), data)
        return self

    def beat(self, instance: str = "pod-7", job: JobAddress = REPORT, **said: Any) -> Scribe:
        beat = WorkerHeartbeat(
            service=job.service, job_type=job.job_type, instance=instance, at=self._at, **said
        )
        where = subjects.presence(job.service, job.job_type, instance)
        return self.add(where, presence.encode(beat))

    def add(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> Scribe:
        """Anything, under any subject."""
        sequence = len(self.messages) + 1
        stored_ns, block = microseconds(self._at) * 1000, h.block(headers) if headers else b""
        self.messages.append(LogMessage(subject, sequence, stored_ns, 0, data, block))
        return self

    def later(self, seconds: float) -> Scribe:
        self._at += timedelta(seconds=seconds)
        return self


def of(job: JobAddress, *events: e.Event) -> list[e.Event]:
    return [replace(event, job=job) for event in events]


def large_job(number: int) -> JobAddress:
    return JobAddress("lab", "bulk", f"job-{number:04}")


def large_jobs(count: int, size: int) -> Scribe:
    """Each has a payload of about this many bytes, and its deadline has passed."""
    scribe = Scribe()
    for number in range(count):
        payload = {"number": number, "blob": chr(ord("a") + number % 26) * size}
        scribe.write(*of(large_job(number), created(payload=payload, deadline=NOON)))
    return scribe


def split(messages: Sequence[LogMessage], cuts: Iterable[int]) -> list[list[LogMessage]]:
    """Into batches, at these places."""
    places = [0, *sorted({cut % (len(messages) + 1) for cut in cuts}), len(messages)]
    return [list(messages[begin:end]) for begin, end in pairwise(places) if begin < end]


@st.composite
def logs(draw: st.DrawFn, max_jobs: int = 5) -> list[LogMessage]:
    """The histories of some jobs, interleaved, with heartbeats and rubbish between."""
    jobs = [JobAddress(f"s{n % 2}", f"t{n % 3}", f"job-{n}") for n in range(max_jobs)]
    waiting = [
        [_with_payload(event, n) for n, event in enumerate(of(job, *draw(histories(max_size=10))))]
        for job in jobs
    ]
    scribe = Scribe()
    while any(waiting):
        turn = draw(st.integers(0, max_jobs + 2))
        if turn < max_jobs and waiting[turn]:
            scribe.write(waiting[turn].pop(0))
        elif turn == max_jobs:
            scribe.beat(f"pod-{len(scribe.messages) % 3}", jobs[0])
        elif turn == max_jobs + 1:
            scribe.add(subjects.lifecycle(jobs[0], e.EventKind.STARTED), b"rubbish")
        else:
            scribe.write(next(history for history in waiting if history).pop(0))
        scribe.later(draw(st.sampled_from([0, 1, 40])))
    return scribe.messages


def _with_payload(event: e.Event, number: int) -> e.Event:
    """Each run has its own, and perhaps another key."""
    if not isinstance(event, e.Begun):
        return event
    key = Concurrency(key=f"acme:{number % 2}", key_hash=f"{number % 2}" * 64)
    return replace(event, payload={"run": number}, concurrency=key)


def rows_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a projection has of the log, table by table."""
    with closing(sqlite3.connect(path)) as database:
        rows = {
            table: sorted(database.execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608
            for table in TABLES
        }
    metadata = [row for row in rows["projection_metadata"] if row[0] != FILLED_AT]
    return {**rows, "projection_metadata": metadata}
