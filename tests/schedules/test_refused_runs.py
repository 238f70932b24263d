"""Jobs that a tick cannot create, and secrets that nothing shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.keys.work_lab import by_key
from tests.schedules.lab import clock, clock_worker, clockwork
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.planted import (
    Charge,
    PlantedJobs,
    Receipt,
    charge_that,
    everything_logged,
    found_in,
    planted_service,
)
from trellis_jobs import Every, Jobs, QueueDepth, Service, job
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import DeclarationError

WAIT = Task(do="wait", key="acme")
PLANTED = charge_that("answer")


async def test_a_run_that_the_key_refuses_is_recorded_with_its_reason(
    server: EmbeddedServer,
) -> None:
    jobs = clock(
        {"pulse": Every(1, payload=WAIT)},
        key=by_key(),
        queue=QueueDepth(max_queued_per_key=0, when_full="reject"),
    )
    async with clockwork(server.url) as found, clock_worker(server.url, jobs) as bench:
        await until(lambda: len(bench.active) == 1, "the first job runs, and has the key")
        run = await found.until_run("pulse", lambda run: run.refused)
        assert run.job_id is not None
        assert run.refused is not None
        assert "acme" in run.refused
        assert len(await found.jobs()) == 1
        record = await found.record("pulse")
        assert run.job_id not in [job.job_id for job in record.unfinished]
        bench.go.set()
        await found.until_ticks("pulse", 2)


@asynccontextmanager
async def planted_worker(url: str) -> AsyncIterator[Service[PlantedJobs]]:
    service = planted_service()
    async with service.connect(url):
        yield service


async def test_secrets_of_a_payload_are_in_no_log_line_and_in_no_repr(
    server: EmbeddedServer,
) -> None:
    with everything_logged() as logged:
        async with planted_worker(server.url) as service:
            schedules = service.jobs.charge.schedules
            every = Every(1, payload=PLANTED)
            made = await schedules.put("daily", every)

            async def has_fired() -> bool:
                return bool((await schedules.get("daily")).runs)

            await until(has_fired, "the schedule has fired")
            ref = await schedules.trigger("daily")
            await ref.wait(timeout=20)
            read = await schedules.get("daily")
            shown = repr([made, read, read.record, read.definition, every, await schedules.list()])
    assert found_in(shown) == []
    assert found_in(logged.getvalue()) == []


def test_a_contract_refuses_a_schedule_with_a_secret() -> None:
    with pytest.raises(DeclarationError, match="secret") as refused:

        class _Bad(Jobs, service="bad"):
            charge = job(Charge, Receipt, schedules={"daily": Every(60, payload=PLANTED)})

    assert found_in(str(refused.value)) == []
