"""Deadlines: a job that is late is ended once, in whatever form its deadline was written."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs_admin.projection.store import Projection
from jobs_admin.reads import candidates
from jobs_admin.reads.readers import Readers
from tests import given
from tests.admin.upkeep_lab import (
    key_view,
    looking_after,
    producer,
    until_kind,
    until_swept,
    worker,
)
from tests.support.example_service import Report, Task, TaskJobs
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef, Queue
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.log.event_log import Latest
from trellis_jobs.jetstream.log.expiry import plan_expiry
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import LIVE, OVER, JobState
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire

SOON = timedelta(milliseconds=300)


def stands(state: JobState, deadline: datetime | None) -> Latest:
    return Latest(Head(11, given.status_in(state, deadline=deadline)), given.CONTEXT)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_job_is_late_at_its_deadline_and_not_before(state: JobState) -> None:
    late = plan_expiry(given.REPORT, stands(state, given.after(60)), given.after(60))
    assert late is not None
    assert (late.tries, late.context) == (given.status_in(state).tries, given.CONTEXT)
    assert plan_expiry(given.REPORT, stands(state, given.after(60)), given.after(59)) is None
    assert plan_expiry(given.REPORT, stands(state, None), given.after(60)) is None


@pytest.mark.parametrize("state", sorted(OVER))
def test_a_job_that_is_over_is_never_late(state: JobState) -> None:
    assert plan_expiry(given.REPORT, stands(state, given.NOON), given.after(60)) is None


async def test_a_job_that_no_worker_runs_expires_and_says_why(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.brief.create(Task())
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            assert await until_kind(raw, ref, EventKind.EXPIRED) == ["created", "expired"]
            job = await ref.get()
        assert (job.state, job.why) == (JobState.EXPIRED, "the deadline passed")
        assert job.deadline is not None
        assert job.updated_at >= job.deadline


async def gets_to(
    raw: Probe, queue: Queue[Task, Report], task: Task, kind: EventKind
) -> JobRef[Any]:
    """Creates jobs until one gets this far before its deadline: a busy machine may be late."""
    while True:
        ref = await queue.create(task)

        async def is_decided(ref: JobRef[Any] = ref) -> set[EventKind]:
            return {kind, EventKind.EXPIRED} & {*await raw.kinds(ref)}

        if kind in await until(is_decided, f"{ref} gets to {kind}, or its deadline passes"):
            return ref


async def test_a_running_handler_is_told_that_its_time_is_over(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "brief") as ward,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        ref = await gets_to(raw, ward.jobs.brief, Task(do="wait"), EventKind.STARTED)
        await until(lambda: ward.cancelled == [ref.id], "the handler was told")
        assert await raw.kinds(ref) == ["created", "started", "expired"]
        await raw.until_empty()


async def test_a_job_that_waits_for_its_next_try_expires_before_that(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "brief") as ward,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        ref = await gets_to(raw, ward.jobs.brief, Task(do="always fail"), EventKind.RETRY)
        kinds = await until_kind(raw, ref, EventKind.EXPIRED)
        assert kinds == ["created", "started", "retry", "expired"]


def in_nanoseconds(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z"


def elsewhere(at: datetime) -> str:
    return (at + timedelta(hours=5, minutes=30)).strftime("%Y-%m-%dT%H:%M:%S.%f+05:30")


def in_lower_case(at: datetime) -> str:
    return f"{at:%Y-%m-%dt%H:%M:%S.%fz}"


def without_a_fraction(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


async def test_a_deadline_of_long_ago_counts_too(server: EmbeddedServer, tmp_path: Path) -> None:
    """Before 1970, say: some runtimes write the first moment of their calendar."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        for year in ("0001", "1969", "1970"):
            ref = await written(raw, jobs, f"of-{year}", f"{year}-01-01T00:00:00Z")
            assert await until_kind(raw, ref, EventKind.EXPIRED) == ["created", "expired"]


async def test_a_deadline_counts_in_whatever_form_it_was_written(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    forms = (in_nanoseconds, elsewhere, in_lower_case, without_a_fraction)
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        soon, later = datetime.now(UTC) + SOON, datetime.now(UTC) + timedelta(hours=1)
        late = [await written(raw, jobs, form.__name__, form(soon)) for form in forms]
        early = [await written(raw, jobs, f"not-{form.__name__}", form(later)) for form in forms]
        for ref in late:
            assert await until_kind(raw, ref, EventKind.EXPIRED) == ["created", "expired"]
        assert [await raw.kinds(ref) for ref in early] == [["created"]] * len(forms)


async def written(raw: Probe, jobs: TaskJobs, job_id: str, deadline: str) -> JobRef[Report]:
    """A job that another runtime created."""
    address = JobAddress("ward", "plain", job_id)
    created = given.created(job=address, at=datetime.now(UTC), payload={"do": "answer"})
    body = orjson.loads(wire.encode(created, replace(given.status(), run=0), None))
    data = orjson.dumps({**body, "deadline": deadline})
    answer = await raw.connection.request(subjects.lifecycle(address, EventKind.CREATED), data)
    assert "error" not in orjson.loads(answer.data)
    return jobs.plain.ref(job_id)


async def test_jobs_that_are_done_or_not_yet_late_are_left_alone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "brief") as ward,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        done = await gets_to(raw, ward.jobs.brief, Task(), EventKind.COMPLETED)
        undated = await ward.jobs.plain.create(Task())
        late = await ward.jobs.brief.create(Task(do="wait"))
        await until_kind(raw, late, EventKind.EXPIRED)
        await until_swept(daemon, "janitor")
        assert await raw.kinds(done) == ["created", "started", "completed"]
        assert await raw.kinds(undated) == ["created"]


async def test_late_jobs_are_found_by_their_deadline_and_not_by_reading_all(
    tmp_path: Path,
) -> None:
    async with (
        Projection.open(tmp_path / "jobs.sqlite"),
        Readers.open(tmp_path / "jobs.sqlite") as readers,
    ):
        steps = await readers.rows(f"EXPLAIN QUERY PLAN {candidates.OVERDUE}", (0, 0, 0, 0))
        assert "jobs_by_deadline" in steps[0][-1]
        assert len(steps) == 1, "and nothing is sorted"


async def test_two_daemons_end_a_late_job_once(server: EmbeddedServer, tmp_path: Path) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "one.sqlite") as one,
        looking_after(server.url, tmp_path / "two.sqlite") as two,
    ):
        refs = await asyncio.gather(*(jobs.brief.create(Task()) for _ in range(100)))
        for ref in refs:
            await until_kind(raw, ref, EventKind.EXPIRED)
        await until_swept(one, "janitor")
        await until_swept(two, "janitor")
        histories = [await raw.kinds(ref) for ref in refs]
        assert histories == [["created", "expired"]] * len(refs)


async def test_a_stranger_cannot_keep_a_late_job_alive(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Bytes under its subjects that are no event move the guard, and the projection skips them."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.brief.create(Task())
        await raw.connection.request(
            subjects.lifecycle(ref.address, EventKind.PROGRESS), b"rubbish"
        )
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            assert await until_kind(raw, ref, EventKind.EXPIRED) == ["created", "expired"]


async def test_a_late_job_waits_for_its_key_no_more(server: EmbeddedServer, tmp_path: Path) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.keyed.create(Task())
        created = (await raw.events.history(ref.address))[0].event
        assert isinstance(created, e.Created)
        purge = orjson.dumps({"filter": subjects.history(ref.address)})
        await raw.connection.request("$JS.API.STREAM.PURGE.JOBS", purge)
        await raw.events.try_append(None, replace(created, deadline=created.at + SOON))
        assert (await key_view(raw, jobs.keyed).read()).is_queued(ref.id)
        never = timedelta(hours=1)  # so that nothing else cleans up the key
        async with looking_after(server.url, tmp_path / "jobs.sqlite", reconcile_interval=never):
            await until_kind(raw, ref, EventKind.EXPIRED)
            await key_view(raw, jobs.keyed).until_empty()
