"""Assertions about created jobs, and their messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from pydantic import BaseModel

from trellis_jobs import ActiveJob, Jobs, NotConnected, Service, job
from trellis_jobs.testing import (
    ConnectService,
    assert_enqueued,
    drain,
    enqueued,
    refute_enqueued,
)


class Address(BaseModel):
    city: str
    street: str = "Main Street"


class Parcel(BaseModel):
    to: Address
    weight: int = 1


class PostJobs(Jobs, service="post"):
    deliver = job(Parcel, str)
    stamp = job(int)


def to(city: str, weight: int = 1) -> Parcel:
    return Parcel(to=Address(city=city), weight=weight)


@pytest_asyncio.fixture
async def post(connected_service: ConnectService) -> AsyncIterator[Service[PostJobs]]:
    service = Service(PostJobs)

    @service.jobs.deliver.handle
    async def deliver(active: ActiveJob[Parcel]) -> str:
        return active.payload.to.city

    async with connected_service(service):
        await service.jobs.deliver.create(to("Rome"), job_id="one")
        await service.jobs.deliver.create(to("Oslo", 5), job_id="two")
        await service.jobs.stamp.create(80)
        yield service


async def test_jobs_are_found_in_the_order_of_their_creation(post: Service[PostJobs]) -> None:
    found = await enqueued(post.jobs.deliver)
    assert [each.payload for each in found] == [to("Rome"), to("Oslo", 5)]
    assert [each.ref.id for each in found] == [each.job.id for each in found] == ["one", "two"]


async def test_a_payload_matches_by_itself_by_its_fields_or_by_a_question(
    post: Service[PostJobs],
) -> None:
    queue = post.jobs.deliver
    for matching in (to("Oslo", 5), {"to": {"city": "Oslo"}}, lambda p: p.weight > 1):
        (found,) = await assert_enqueued(queue, matching)
        assert found.ref.id == "two"
    await assert_enqueued(queue, {"to": {"street": "Main Street"}}, count=2)
    await assert_enqueued(queue, count=2)


async def test_what_does_not_match_is_not_there(post: Service[PostJobs]) -> None:
    queue = post.jobs.deliver
    for matching in (to("Oslo"), {"to": {"city": "Bonn"}}, {"via": "air"}, lambda p: p.weight > 9):
        await refute_enqueued(queue, matching)
        with pytest.raises(AssertionError):
            await assert_enqueued(queue, matching)
    with pytest.raises(AssertionError):
        await refute_enqueued(queue, lambda p: p.weight > 1)


@pytest.mark.parametrize(("count", "jobs"), [(0, "0 jobs"), (1, "1 job"), (3, "3 jobs")])
async def test_more_or_fewer_jobs_than_expected_fail(
    post: Service[PostJobs], count: int, jobs: str
) -> None:
    with pytest.raises(AssertionError, match=f"expected {jobs}, found 2 among 2"):
        await assert_enqueued(post.jobs.deliver, count=count)


async def test_a_count_of_zero_can_be_expected(post: Service[PostJobs]) -> None:
    assert await assert_enqueued(post.jobs.deliver, {"weight": 9}, count=0) == []


async def test_a_failure_shows_what_is_there_instead(post: Service[PostJobs]) -> None:
    with pytest.raises(AssertionError) as failure:
        await assert_enqueued(post.jobs.deliver, {"weight": 7}, count=2)
    assert str(failure.value).splitlines() == [
        "expected 2 jobs matching {'weight': 7}, found 0 among 2 in queue 'deliver':",
        '  {"to": {"city": "Rome", "street": "Main Street"}, "weight": 1}  pending  one',
        '  {"to": {"city": "Oslo", "street": "Main Street"}, "weight": 5}  pending  two',
        "(queue 'stamp' has 1)",
    ]
    with pytest.raises(AssertionError, match="expected no job, found 1 among 1 in queue 'stamp'"):
        await refute_enqueued(post.jobs.stamp)


async def test_a_job_that_is_over_was_enqueued_all_the_same(post: Service[PostJobs]) -> None:
    await drain(post)
    (found,) = await assert_enqueued(post.jobs.deliver, to("Rome"))
    assert found.job.state == "completed"
    assert await found.ref.wait() == "Rome"


async def test_a_service_that_is_not_connected_has_no_log_to_read() -> None:
    with pytest.raises(NotConnected):
        await assert_enqueued(Service(PostJobs).jobs.stamp)
