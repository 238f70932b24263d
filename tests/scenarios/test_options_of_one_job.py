"""Options of one job, which replace those of its queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.example_service import Task, example_jobs
from tests.support.lab import producer, worker
from tests.sync.helpdesk_jobs import helpdesk
from trellis_jobs import ActiveJob, JobDead, JobOptionInvalid, Service
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.try_limits import TryLimits
from trellis_jobs.testing import inline


async def test_a_job_dies_after_its_own_number_of_tries(server: EmbeddedServer) -> None:
    async with worker(server.url, "work", "single") as bench:
        fewer = await bench.jobs.work.create(Task(do="always fail"), max_tries=1)
        more = await bench.jobs.single.create(Task(do="always fail"), max_tries=2)
        for ref, tries in ((fewer, 1), (more, 2)):
            with pytest.raises(JobDead):
                await ref.wait(timeout=10)
            job = await ref.get()
            assert (job.tries, job.max_tries) == (tries, tries)


async def test_the_timeout_of_a_job_stops_its_handler(server: EmbeddedServer) -> None:
    """The queue has no timeout."""
    async with worker(server.url, "work") as bench:
        ref = await bench.jobs.work.create(Task(do="hang"), timeout=0.2)
        assert (await ref.wait(timeout=10)).tries == 2
        assert bench.cancelled == [ref.id]
        [error] = (await ref.get()).errors
        assert (error.type, error.message) == ("timeout", "timed out after 200 ms")


async def test_the_timeout_of_a_job_may_be_longer_than_that_of_its_queue(
    server: EmbeddedServer,
) -> None:
    """The queue stops a try after 0.3 s."""
    async with worker(server.url, "hasty") as bench:
        ref = await bench.jobs.hasty.create(Task(do="nap", seconds=0.6), timeout=30)
        assert (await ref.wait(timeout=10)).tries == 1


async def test_every_way_to_create_a_job_takes_the_options(server: EmbeddedServer) -> None:
    limits = TryLimits(timedelta(seconds=7))
    async with producer(server.url) as jobs:
        one = await jobs.work.create(Task(), max_tries=7, timeout=timedelta(seconds=7))
        submitted = await jobs.work.submit(Task(), max_tries=7, timeout=7)
        many = await jobs.work.create_many([Task(), Task()], max_tries=7, timeout=7.0)
        for ref in (one, submitted.ref, *many):  # type: ignore[union-attr]
            job = await ref.get()
            assert (job.max_tries, job.job.run.try_limits) == (7, limits)
        plain = await (await jobs.work.create(Task(), max_tries=None, timeout=None)).get()
        assert (plain.max_tries, plain.job.run.try_limits) == (3, None)


def test_the_sync_client_takes_them_too(jobs_server: str) -> None:
    with helpdesk().connect_sync(jobs_server) as client:
        shout = client.queue(helpdesk().jobs.shout)
        submitted = shout.submit("c", max_tries=7, timeout=7)
        made = [
            shout.create("a", max_tries=7, timeout=7),
            *shout.create_many(["b"], max_tries=7, timeout=7),
            submitted.ref,  # type: ignore[union-attr]
        ]
        for ref in made:
            job = ref.get()
            assert job.max_tries == 7
            assert job.job.run.try_limits == TryLimits(timedelta(seconds=7))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"max_tries": 0}, "max_tries must be at least 1, is 0"),
        ({"max_tries": 1.5}, "max_tries must be a whole number, is 1.5"),
        ({"max_tries": True}, "max_tries must be a whole number, is True"),
        ({"max_tries": 2**53}, "max_tries must be at most"),
        ({"timeout": 0}, "timeout must be at least 0.001 s"),
        ({"timeout": 0.0001}, "timeout must be at least 0.001 s"),
        ({"timeout": "soon"}, "timeout must be seconds or a timedelta, is 'soon'"),
        ({"timeout": float("nan")}, "timeout must be seconds or a timedelta"),
        ({"timeout": timedelta(days=40_000)}, "timeout must be at most 36525 d"),
    ],
)
async def test_wrong_options_create_no_job(wrong: dict[str, Any], why: str) -> None:
    service = Service(example_jobs("shop", Task, str, work={}))

    @service.jobs.work.handle
    async def work(job: ActiveJob[Task]) -> str:
        raise AssertionError("no job exists")

    async with inline(service):
        for attempt in (
            service.jobs.work.create(Task(), **wrong),
            service.jobs.work.submit(Task(), **wrong),
            service.jobs.work.create_many([Task()], **wrong),
        ):
            with pytest.raises(JobOptionInvalid, match=why):
                await attempt


async def test_an_option_that_does_not_exist_is_refused(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        with pytest.raises(TypeError, match="max_trys"):
            await jobs.work.create(Task(), max_trys=3)  # type: ignore[call-arg]


async def test_the_first_event_has_the_options_and_no_later_one(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench:
        ref = await bench.jobs.work.create(Task(), timeout=9)
        await ref.wait(timeout=10)
        [begun] = [each for each in await ref.events() if each.kind is EventKind.CREATED]
        assert begun.try_limits == TryLimits(timedelta(seconds=9))  # type: ignore[attr-defined]
