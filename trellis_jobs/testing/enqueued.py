"""Checks which jobs a service has created, by its log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from trellis_jobs.model.redaction import redacted
from trellis_jobs.testing.service_log import ServiceLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.model.job import Job
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.service.queue import Queue

P = TypeVar("P")
R = TypeVar("R")

# A payload to be equal to, fields that its JSON contains, or a function that returns True for it.
Matching: TypeAlias = P | Mapping[str, object] | Callable[[P], object]


@dataclass(frozen=True, slots=True)
class Enqueued(Generic[P, R]):
    """A job that was created, in any state."""

    payload: P
    job: Job
    ref: JobRef[R]


async def enqueued(queue: Queue[P, R], matching: Matching[P] | None = None) -> list[Enqueued[P, R]]:
    """Returns the created jobs of a queue, oldest first, that match."""
    return _chosen(queue, _of_queue(queue, await _jobs(queue)), matching)


async def assert_enqueued(
    queue: Queue[P, R], matching: Matching[P] | None = None, *, count: int | None = None
) -> list[Enqueued[P, R]]:
    """Asserts that at least one job matches, or exactly `count`. Returns the jobs."""
    __tracebackhide__ = True
    jobs = await _jobs(queue)
    found = _chosen(queue, _of_queue(queue, jobs), matching)
    if len(found) == count or (count is None and found):
        return found
    expected = "a job" if count is None else "1 job" if count == 1 else f"{count} jobs"
    raise AssertionError(
        f"expected {expected}{_condition(matching)}, {_found_instead(queue, jobs, len(found))}"
    )


async def refute_enqueued(queue: Queue[P, R], matching: Matching[P] | None = None) -> None:
    """Asserts that no job matches."""
    __tracebackhide__ = True
    jobs = await _jobs(queue)
    found = _chosen(queue, _of_queue(queue, jobs), matching)
    if found:
        instead = _found_instead(queue, jobs, len(found))
        raise AssertionError(f"expected no job{_condition(matching)}, {instead}")


async def _jobs(queue: Queue[P, R]) -> list[Job]:
    live = queue.runtime.connected
    log = ServiceLog(live.connection, queue.runtime.service)
    await log.read_new()
    return list(log.jobs.values())


def _of_queue(queue: Queue[P, R], jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job.address.job_type == queue.type.name]


def _chosen(
    queue: Queue[P, R], jobs: Iterable[Job], matching: Matching[P] | None
) -> list[Enqueued[P, R]]:
    read = queue.type.read
    every = [Enqueued(read(job.payload, job.run.version), job, queue.ref(job.id)) for job in jobs]
    return [each for each in every if matching is None or _matches(queue, each, matching)]


def _matches(queue: Queue[P, R], found: Enqueued[P, R], matching: Matching[P]) -> bool:
    if isinstance(matching, Mapping):
        return _contains(matching, found.job.payload)
    if callable(matching):
        return bool(matching(found.payload))
    return queue.type.payload.to_json(matching) == found.job.payload


def _contains(part: object, whole: Json) -> bool:
    """Whether `whole` has all fields of `part`, at any depth. Other values must be equal."""
    if isinstance(part, Mapping) and isinstance(whole, dict):
        return all(name in whole and _contains(value, whole[name]) for name, value in part.items())
    return part == whole


def _condition(matching: object) -> str:
    if matching is None:
        return ""
    name = getattr(matching, "__qualname__", None)
    return f" matching {matching!r}" if name is None else f" for which {name} is true"


def _shown(job: Job) -> str:
    return json.dumps(redacted(job.payload, job.run.secrets))


def _found_instead(queue: Queue[P, R], jobs: Iterable[Job], found: int) -> str:
    """Lists the jobs of this queue, and counts those of the others."""
    own = _of_queue(queue, jobs)
    lines = [f"found {found} among {len(own)} in queue {queue.type.name!r}:"]
    lines += [f"  {_shown(job)}  {job.state}  {job.id}" for job in own]
    others = Counter(job.address.job_type for job in jobs)
    del others[queue.type.name]
    if others:
        counted = ", ".join(f"{name!r} has {count}" for name, count in sorted(others.items()))
        lines.append(f"(queue {counted})")
    return "\n".join(lines)
