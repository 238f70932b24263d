"""The job that is measured, and the very bytes its events are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from trellis_jobs import Jobs, job
from trellis_jobs.contract.declaration import JobType
from trellis_jobs.environment import Environment
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt, work_identity
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h

CONCURRENCY: Final = 100
OURS: Final = "bench-ours"
BARE: Final = "bench-bare"


class Invoice(BaseModel):
    number: int
    customer: str = "Harbour Street Bakery"
    note: str = "monthly statement, to be sent as one document"


class Receipt(BaseModel):
    number: int
    total_cents: int = 129_900


class BenchJobs(Jobs, service=OURS):
    invoice = job(Invoice, Receipt, concurrency=CONCURRENCY)


QUEUE: Final[JobType[Any, Any]] = BenchJobs.contract.queues["invoice"]


@dataclass(frozen=True, slots=True)
class Template:
    """One event as the runtime would write it, to be sent again and again by the bare pump."""

    data: bytes
    headers: dict[str, str]


def templates() -> dict[EventKind, Template]:
    """A job's three events: made once, so that the pump sends as many bytes as the runtime."""
    made: dict[EventKind, Template] = {}
    status: JobStatus | None = None
    for sequence, event in enumerate(_history(Environment()), start=1_000_000):
        before, after = status, advance(status, event)
        assert not isinstance(after, Illegal)
        data = wire.encode(event, after, before.state if before else None)
        made[event.kind] = Template(data, h.of_event(event.context, "0" * 24))
        status = after.recorded_at(sequence)
    return made


def _history(environment: Environment) -> list[Event]:
    attempt = Attempt(
        environment.new_id(), environment.new_id(), work_identity(1_000_000, 10**18), 1
    )
    said: e.EventFields = {
        "job": JobAddress(OURS, QUEUE.name, environment.new_id()),
        "context": JobContext(environment.new_id(), environment.new_traceparent()),
        "at": environment.now(),
        "tries": 0,
    }
    tried: e.AttemptFields = {**said, "tries": 1, "attempt": attempt, "concurrency": None}
    payload, result = Invoice(number=1_000), Receipt(number=1_000)
    return [
        e.Created(**said, payload=payload.model_dump(), max_tries=QUEUE.retry.max_tries),
        e.Started(**tried),
        e.Completed(**tried, result=result.model_dump()),
    ]
