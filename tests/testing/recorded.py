"""What a job has recorded in the log, without what differs from run to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from trellis_jobs import JobRef, JobsError
from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.job import Job
from trellis_jobs.model.reducer import NOTES

_ID: Final = re.compile("[0-9A-Z]{26}")


@dataclass(frozen=True)
class Recorded:
    """The job's events in the log without ids and times, which differ from run to run."""

    events: tuple[tuple[EventKind, int], ...]
    state: str
    tries: int
    result: object
    errors: tuple[tuple[str, str, int], ...]
    progress: object
    logs: tuple[tuple[str, str], ...]
    why: str | None
    ended_by: str | None
    key: str | None
    policy: str | None


def recorded(job: Job, events: list[Event]) -> Recorded:
    held, policy = job.run.concurrency, job.run.queue_policy
    return Recorded(
        # When notes are written depends on the moment; what they say is in the job.
        events=tuple((event.kind, event.tries) for event in events if event.kind not in NOTES),
        state=job.state,
        tries=job.tries,
        result=job.result,
        errors=tuple((error.type, error.message, error.tries) for error in job.errors),
        progress=job.progress,
        logs=tuple((line.level, line.message) for line in job.logs),
        why=None if job.why is None else without_ids(job.why),
        ended_by=job.run.ended_by,
        key=None if held is None else held.key,
        policy=None if policy is None else policy.outcome,
    )


async def end_of(ref: JobRef[Any]) -> object:
    """The result, or the type and message of the error without the job's id."""
    try:
        return await ref.wait(timeout=20)
    except JobsError as error:
        return type(error), without_ids(error)


def without_ids(text: object) -> str:
    return _ID.sub("<id>", str(text))
