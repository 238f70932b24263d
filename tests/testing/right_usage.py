"""Correct usage: both type checkers accept it without a message."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Job, JobRef, Jobs, JobSnapshot, Service, job
from trellis_jobs.testing import (
    Accounts,
    ConnectService,
    Drained,
    Enqueued,
    HandlerRun,
    assert_enqueued,
    drain,
    enqueued,
    inline,
    refute_enqueued,
    run_handler,
)


class Email(BaseModel):
    to: str


class ShopJobs(Jobs, service="shop"):
    send_email = job(Email, str)
    count = job(int)


service = Service(ShopJobs)


@service.jobs.send_email.handle
async def send(active: ActiveJob[Email]) -> str:
    return active.payload.to


async def of_handlers() -> None:
    queue = service.jobs.send_email
    assert_type(await run_handler(queue, Email(to="ada")), str)
    await run_handler(queue, Email(to="ada"), tries=2, max_tries=2, deadline=timedelta(hours=1))
    await run_handler(
        queue, Email(to="a"), redelivered=1, cancel_when=lambda recorded: bool(recorded.logs)
    )
    run = HandlerRun(queue, Email(to="ada"))
    assert_type(run, HandlerRun[Email, str])
    assert_type(await run.run(), str)
    assert_type(run.job, JobSnapshot[str])
    assert_type(run.recorded.heartbeats, int)
    await run_handler(service.jobs.count, 1)


async def of_queues(connected_service: ConnectService) -> None:
    async with connected_service(service, workers=True) as connected:
        assert_type(connected, Service[ShopJobs])
        queue = connected.jobs.send_email
        found = await assert_enqueued(queue, lambda email: email.to == "ada", count=1)
        assert_type(found, list[Enqueued[Email, str]])
        assert_type(found[0].payload, Email)
        assert_type(found[0].ref, JobRef[str])
        assert_type(await found[0].ref.wait(), str)
        await assert_enqueued(queue, Email(to="ada"))
        await assert_enqueued(queue, {"to": "ada"})
        await refute_enqueued(connected.jobs.count, 7)
        await refute_enqueued(connected.jobs.count, lambda number: number > 7)
        assert_type(await enqueued(queue), list[Enqueued[Email, str]])
        drained = await drain(connected, delays=True, timeout=5)
        assert_type(drained, Drained)
        assert_type(drained.in_state("dead"), list[Job])


async def of_inline() -> None:
    async with inline(service) as at_once:
        assert_type(at_once, Service[ShopJobs])
        assert_type(await (await at_once.jobs.send_email.create(Email(to="ada"))).wait(), str)


def of_accounts(accounts: Accounts) -> None:
    with accounts.fresh() as url:
        assert_type(url, str)
