"""Two services with one name and different contracts, which failed each other's jobs in silence."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.health import HealthStatus
from jobs_admin.doctor import rules
from tests.admin.admin_lab import daemon_at
from tests.support.facts import until
from tests.support.lab import probe
from trellis_jobs import ActiveJob, JobFailed, Jobs, JobState, Service, job
from trellis_jobs.contract.consumer_metadata import contract_json
from trellis_jobs.contract.other_contract import accepts, conflicts, contract_digest
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind, RetryScheduled
from trellis_jobs.model.job_errors import Interruption


class Charge(BaseModel):
    cents: int


class Refund(BaseModel):
    reason: str


class ChargingJobs(Jobs, service="billing"):
    pay = job(Charge, str, ack_wait=5, concurrency=4)


class RefundingJobs(Jobs, service="billing"):
    pay = job(Refund, str, ack_wait=5, concurrency=4)


CHARGING = contract_json("billing", ChargingJobs.contract.queues["pay"])
REFUNDING = contract_json("billing", RefundingJobs.contract.queues["pay"])


def charging() -> Service[ChargingJobs]:
    service = Service(ChargingJobs)

    @service.jobs.pay.handle
    async def pay(active: ActiveJob[Charge]) -> str:
        return f"{active.payload.cents} cents"

    return service


def refunding() -> Service[RefundingJobs]:
    service = Service(RefundingJobs)

    @service.jobs.pay.handle
    async def pay(active: ActiveJob[Refund]) -> str:
        return active.payload.reason

    return service


async def test_the_second_to_start_says_what_differs(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with charging().connect(server.url):
        assert "another contract" not in caplog.text
        async with refunding().connect(server.url):
            [said] = [each for each in caplog.records if "another contract" in each.getMessage()]
    assert said.levelname == "WARNING"
    assert "consumer billing-pay" in said.getMessage()
    old, new = "jobs of the old contract, new workers: ", "jobs of the new contract, old workers: "
    onto_new, onto_old = said.getMessage().partition(old)[2].split(f"; {new}")
    assert onto_new.startswith("payload (may reject an existing payload: /: now needs 'reason')")
    assert onto_old.startswith("payload (may reject an existing payload: /: now needs 'cents')")


async def test_a_worker_leaves_jobs_that_fit_the_newer_contract_to_others(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack, probe(server.url) as raw:
        producer = Service(RefundingJobs)
        await stack.enter_async_context(producer.connect(server.url, workers=False))
        await stack.enter_async_context(charging().connect(server.url))
        async with refunding().connect(server.url):
            pass  # its contract is the one on the server from now on
        ref = await producer.jobs.pay.create(Refund(reason="broken"))

        async def is_put_back() -> bool:
            return EventKind.RETRY in await raw.kinds(ref)

        await until(is_put_back, "the older worker puts it back")
        found = await ref.get()
        assert (found.state, found.tries) == (JobState.RETRY, 0)
        assert found.last_error is not None
        assert found.last_error.type == Interruption.OTHER_CONTRACT
        events = [each.event for each in await raw.events.history(ref.address)]
        put_back = next(each for each in events if isinstance(each, RetryScheduled))
        assert put_back.next_attempt_at is not None
        assert put_back.next_attempt_at - put_back.at < timedelta(seconds=0.2)
        await stack.enter_async_context(refunding().connect(server.url))
        assert await ref.wait(timeout=20) == "broken"
        assert (await ref.get()).tries == 1
    assert "does not fit the contract" in caplog.text
    assert "put back without using a try" in caplog.text


async def test_jobs_find_the_right_worker_while_workers_of_both_contracts_run(
    server: EmbeddedServer,
) -> None:
    async with AsyncExitStack() as stack, probe(server.url) as raw:
        for service in (charging(), refunding()):
            await stack.enter_async_context(service.connect(server.url))
        producer = Service(RefundingJobs)
        await stack.enter_async_context(producer.connect(server.url, workers=False))
        refs = await producer.jobs.pay.create_many([Refund(reason="late")] * 30)
        for ref in refs:
            assert await ref.wait(timeout=20) == "late"
            assert (await ref.get()).tries == 1
        put_back = [ref for ref in refs if EventKind.RETRY in await raw.kinds(ref)]
        assert put_back, "the older worker was given some of them"


async def test_a_job_that_fits_no_contract_fails_as_ever(server: EmbeddedServer) -> None:
    async with (
        charging().connect(server.url),
        Service(RefundingJobs).connect(server.url, workers=False) as producer,
    ):
        ref = await producer.jobs.pay.create(Refund(reason="broken"))
        with pytest.raises(JobFailed, match=Interruption.PAYLOAD_INVALID):
            await ref.wait(timeout=10)


async def test_a_job_that_no_worker_takes_fails_in_the_end(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trellis_jobs.worker.contract_gate.MAX_DELIVERIES", 2)
    async with charging().connect(server.url), probe(server.url) as raw:
        async with refunding().connect(server.url):
            pass
        async with Service(RefundingJobs).connect(server.url, workers=False) as producer:
            ref = await producer.jobs.pay.create(Refund(reason="broken"))
            with pytest.raises(JobFailed, match=Interruption.PAYLOAD_INVALID):
                await ref.wait(timeout=10)
        assert (await raw.kinds(ref)).count(EventKind.RETRY) == 1


async def test_health_and_doctor_report_it(server: EmbeddedServer, tmp_path: Path) -> None:
    async with (
        charging().connect(server.url),
        refunding().connect(server.url),
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url) as admin,
    ):

        async def is_seen() -> bool:
            found = (await admin.health()).check("contracts")
            return found is not None and found.status is HealthStatus.DEGRADED

        await until(is_seen, "the health tells it")
        health = await admin.health()
        [check] = [each for each in health.checks if each.name == "contracts"]
        one, other = sorted(map(contract_digest, (CHARGING, REFUNDING)))
        words = f"the workers of billing/pay have different contracts (workers of each: {one}: 1, "
        assert str(check.error) == f"{words}{other}: 1)"
        found = [each for each in rules.check_health(health) if "billing/pay" in each.message]
        assert "rename one" in str(found[0].remedy)
        [service] = [each async for each in admin.services()]
        assert {worker.contract_digest for worker in service.workers} == {one, other}


@pytest.mark.parametrize(
    ("note", "payload", "version", "fits"),
    [
        (CHARGING, {"cents": 1}, 1, True),
        (CHARGING, {"reason": "x"}, 1, False),
        (CHARGING, {"cents": 1}, 2, False),
        (REFUNDING, {"reason": "x"}, 1, True),
        ("no JSON", {"reason": "x"}, 1, False),
    ],
)
def test_which_contract_takes_a_payload(note: str, payload: Any, version: int, fits: bool) -> None:
    assert accepts(note, "billing", "pay", payload, version) is fits


def test_settings_that_fail_no_job_are_no_conflict() -> None:
    class Hasty(Jobs, service="billing"):
        pay = job(Charge, str, ack_wait=1, concurrency=1, max_deliver=1)

    assert conflicts(CHARGING, contract_json("billing", Hasty.contract.queues["pay"])) == []
    assert conflicts(CHARGING, REFUNDING)
