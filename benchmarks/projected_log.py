"""A log to project: jobs that were created, started and completed, as our runtime writes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry, Job, fold
from trellis_jobs.model.job_errors import JobError
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h

EVENTS_A_JOB: Final = 3
BEGIN: Final = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
SERVICES, TYPES = 5, 4
_AT_ONCE: Final = 100
_CONTEXT: Final = JobContext(
    "01JQREQ0EST0000000000000BB", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)


def address(number: int) -> JobAddress:
    return JobAddress(
        f"service-{number % SERVICES}", f"type-{number % TYPES}", f"01JQEXAMP1E{number:015d}"
    )


def history(number: int) -> list[e.Event]:
    """One job in twenty fails, another dies; its payload names one of a thousand customers."""
    at = BEGIN + timedelta(milliseconds=10 * number)
    said = _attempt(number, at)
    return [_created(number, at), e.Started(**said), _end(number, said)]


def died(number: int, at: datetime, error_type: str, message: str) -> list[e.Event]:
    """The events of a job that died at its first try."""
    said = _attempt(number, at)
    error = JobError(type=error_type, message=message, tries=1, at=said["at"])
    return [_created(number, at), e.Started(**said), e.Dead(**said, error=error)]


def _attempt(number: int, at: datetime) -> e.AttemptFields:
    attempt = Attempt(f"01JQATTEMPT{number:015d}", f"pod-{number % 7}", f"{number}-{number}", 1)
    return {
        "job": address(number),
        "context": _CONTEXT,
        "at": at + timedelta(seconds=1),
        "tries": 1,
        "attempt": attempt,
        "concurrency": None,
    }


def _created(number: int, at: datetime) -> e.Created:
    payload: dict[str, Json] = {
        "customer": number % 1000,
        "document": f"d-{number}",
        "options": {"colour": True},
    }
    return e.Created(
        job=address(number), context=_CONTEXT, at=at, tries=0, payload=payload, max_tries=3
    )


def _end(number: int, said: e.AttemptFields) -> e.Event:
    if number % 10 != 9:
        return e.Completed(**said, result={"pages": 4})
    error = JobError(
        type="HTTPError", message=f"503 from upstream {number % 50}", tries=1, at=said["at"]
    )
    return (e.Dead if number % 20 == 19 else e.Failed)(**said, error=error)


def folded(number: int, sequence: int) -> Job:
    entries = [Entry(sequence + n, event) for n, event in enumerate(history(number))]
    job = fold(entries)
    assert job is not None
    return job


def waiting(number: int, sequence: int, keys: int) -> Job:
    """A job that is not over, on one of this many keys."""
    key = Concurrency(key=f"customer:{number % keys}", key_hash=f"{number % keys:064x}")
    begun, *_ = history(number)
    assert isinstance(begun, e.Created)
    job = fold([Entry(sequence, replace(begun, concurrency=key))])
    assert job is not None
    return job


def messages(jobs: int) -> Iterator[tuple[str, bytes]]:
    """Of as many jobs at once as a busy queue has."""
    numbers = iter(range(jobs))
    while some := list(islice(numbers, _AT_ONCE)):
        statuses: dict[int, JobStatus] = {}
        histories = {number: history(number) for number in some}
        for step in range(EVENTS_A_JOB):
            for number in some:
                event, before = histories[number][step], statuses.get(number)
                moved = advance(before, event)
                assert not isinstance(moved, Illegal)
                statuses[number] = replace(moved, run=1)
                data = wire.encode(event, statuses[number], before.state if before else None)
                yield subjects.lifecycle(event.job, event.kind), data


async def write(connection: Connection, jobs: int) -> None:
    for number, (subject, data) in enumerate(messages(jobs)):
        headers = h.of_event(_CONTEXT, f"01JQEVENT{number:017d}")
        await connection.publish(subject, data, headers=headers)
        if number % 1000 == 0:
            await connection.flush()
    await connection.flush()
