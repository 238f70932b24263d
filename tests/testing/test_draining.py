"""drain() runs all jobs in the queues to their end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.lab import probe
from tests.testing.troupe import Part, Troupe
from trellis_jobs import ActiveJob, Jobs, Retry, Service, job
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import Created, EventKind, RetryScheduled
from trellis_jobs.testing import ConnectService, NotDrained, drain


class MillJobs(Jobs, service="mill"):
    grind = job(int, int, max_deliver=3, backoff=[0.05])
    bake = job(int)


async def test_drain_returns_what_happened(connected_service: ConnectService) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service):
        for n, do in enumerate(("answer", "stumble", "fail", "give up")):
            await troupe.jobs.play.create(Part(do=do), job_id=f"{n}")
        await troupe.jobs.unplayed.create(Part(), job_id="left")
        drained = await drain(troupe.service)
    assert {job.id for job in drained.jobs} == {"0", "1", "2", "3"}
    assert [job.id for job in drained.in_state("completed")] == ["0", "1"]
    assert [job.id for job in drained.in_state("dead")] == ["2"]
    assert [job.id for job in drained.left] == ["left"]
    started = [event for event in drained.events if event.kind is EventKind.STARTED]
    assert len(started) == 1 + 2 + 3 + 1
    assert EventKind.CREATED not in {event.kind for event in drained.events}


async def test_jobs_that_ended_before_are_not_returned_again(
    connected_service: ConnectService,
) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service):
        await troupe.jobs.play.create(Part())
        assert len((await drain(troupe.service)).jobs) == 1
        assert (await drain(troupe.service)).jobs == ()
        await troupe.jobs.play.create(Part(), job_id="second")
        assert [job.id for job in (await drain(troupe.service)).jobs] == ["second"]


async def test_jobs_that_handlers_create_are_run_too(connected_service: ConnectService) -> None:
    service = Service(MillJobs)

    @service.jobs.grind.handle
    async def grind(active: ActiveJob[int]) -> int:
        if active.payload:
            await service.jobs.grind.create(active.payload - 1)
        return active.payload

    async with connected_service(service):
        await service.jobs.grind.create(5)
        drained = await drain(service)
        assert [job.result for job in drained.jobs] == [5, 4, 3, 2, 1, 0]


async def test_delays_are_kept_on_request(connected_service: ConnectService) -> None:
    service = Service(MillJobs)

    @service.jobs.grind.handle
    async def grind(active: ActiveJob[int]) -> int:
        if active.tries == 1:
            raise RuntimeError("once more")
        if active.tries == 2:
            raise Retry(after=0.1)
        return active.tries

    async with connected_service(service):
        ref = await service.jobs.grind.create(1)
        await drain(service, delays=True)
        events = await ref.events()
    begun = [event.at for event in events if event.kind is EventKind.STARTED]
    delayed = [event for event in events if isinstance(event, RetryScheduled)]
    assert [event.next_attempt_at > event.at for event in delayed if event.next_attempt_at] == [
        True,
        True,
    ]
    for retry, start in zip(delayed, begun[1:], strict=True):
        assert retry.next_attempt_at is not None
        assert retry.next_attempt_at <= start


@pytest.mark.parametrize("workers", [False, True])
async def test_a_delayed_job_is_left_with_its_time(
    workers: bool, connected_service: ConnectService
) -> None:
    troupe, run_at = Troupe(), datetime.now(UTC) + timedelta(hours=1)
    async with connected_service(troupe.service, workers=workers):
        await troupe.jobs.play.create(Part(), run_at=run_at, job_id="later")
        await troupe.jobs.play.create(Part(), job_id="now")
        drained = await drain(troupe.service)
    left = [(job.id, job.state, job.status.next_attempt_at) for job in drained.left]
    assert left == [("later", "scheduled", run_at)]


async def test_delayed_jobs_run_at_their_time_on_request(connected_service: ConnectService) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service):
        await troupe.jobs.soon.create(Part(do="stumble"), delay=0.2, job_id="later")
        drained = await drain(troupe.service, delays=True)
    assert [(job.id, job.state) for job in drained.jobs] == [("later", "completed")]
    assert drained.left == ()
    (released,) = [event for event in drained.events if isinstance(event, Created)]
    assert released.run_at is not None
    assert released.at >= released.run_at


async def test_workers_that_run_already_are_waited_for(connected_service: ConnectService) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service, workers=True):
        ref = await troupe.jobs.play.create(Part())
        await drain(troupe.service)
        assert (await ref.get()).state == "completed"
        await troupe.jobs.play.create(Part())
        assert len((await drain(troupe.service)).jobs) <= 1, "and they go on afterwards"


async def test_jobs_of_one_key_are_run_one_after_the_other(
    connected_service: ConnectService,
) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service):
        await troupe.jobs.patient.create_many([Part(), Part()])
        drained = await drain(troupe.service)
    kinds = [e.kind for e in drained.events]
    assert kinds == [EventKind.STARTED, EventKind.COMPLETED] * 2


async def test_an_incomplete_drain_lists_what_is_left(connected_service: ConnectService) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service):
        await troupe.jobs.play.create(Part(do="hang"), job_id="stuck")
        expected = r"1 job is not over after 0\.5 s:\n  play stuck is "
        with pytest.raises(NotDrained, match=expected) as left:
            await drain(troupe.service, timeout=0.5)
        assert [job.id for job in left.value.live] == ["stuck"]


async def test_after_a_drain_no_worker_requests_jobs(connected_service: ConnectService) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service), probe(connected_service.url) as raw:
        await troupe.jobs.play.create(Part())
        await drain(troupe.service)
        consumer = await api.request(raw.connection, "CONSUMER.INFO.JOBS_WORK.troupe-play")
        assert consumer["num_waiting"] == 0
        assert consumer["num_ack_pending"] == 0
