"""A deploy while jobs are on their way: workers of two versions at once, as processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.reasons import Because
from tests.admin.admin_lab import daemon_at
from tests.cli.command import Command, running
from tests.deploys import billing_v1, billing_v2
from tests.support.facts import until
from tests.support.lab import probe, until_state
from trellis_jobs import ActiveJob, Fail, JobFailed, JobRef, Jobs, JobState, Service, job
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import Begun
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.testing import run_handler

PUT_BACK = "It puts such jobs back for workers with newer code"


@contextmanager
def worker_of(version: str, url: str, folder: Path) -> Iterator[Command]:
    own = folder / version
    own.mkdir()
    named = f"tests.deploys.billing_{version}:service"
    with running(own, "worker", named, "--nats", url) as command:
        yield command


def before() -> Service[billing_v1.BillingJobs]:
    return Service(billing_v1.BillingJobs)


def afterwards() -> Service[billing_v2.BillingJobs]:
    return Service(billing_v2.BillingJobs)


async def test_jobs_of_both_versions_are_done_while_both_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    old, new = before(), afterwards()
    with (
        worker_of("v1", server.url, tmp_path) as first,
        worker_of("v2", server.url, tmp_path) as second,
    ):
        await first.until_prints("worker started")
        await second.until_prints("worker started")
        async with old.connect(server.url, workers=False), new.connect(server.url, workers=False):
            older: list[JobRef[str]] = []
            newer: list[JobRef[str]] = []
            for n in range(10):
                earlier = billing_v1.Bill(number=n, euros=5)
                later = billing_v2.Bill(number=n, cents=700, currency="EUR")
                older.append(await old.jobs.bill.create(earlier))
                newer.append(await new.jobs.bill.create(later))
                older.append(await old.jobs.remind.create(earlier, job_id=f"r{n}"))
            done = [await ref.wait(timeout=50) for ref in older]
            assert set(done) <= {"v1: 5 EUR", "v2: 500 cents"}
            assert {await ref.wait(timeout=50) for ref in newer} == {"v2: 700 cents"}
            assert {(await ref.get()).tries for ref in older + newer} == {1}


async def test_an_old_worker_alone_puts_a_newer_job_back_without_a_try_until_a_new_one_comes(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    new = afterwards()
    with worker_of("v1", server.url, tmp_path) as first:
        await first.until_prints("worker started")
        async with (
            new.connect(server.url, workers=False),
            daemon_at(server.url, tmp_path / "jobs.sqlite"),
            AdminClient.connect(server.url) as admin,
        ):
            payload = billing_v2.Bill(number=1, cents=700, currency="EUR")
            refs = [await new.jobs.bill.create(payload), await new.jobs.remind.create(payload)]
            for queue in ("bill", "remind"):
                await until_delivered(server.url, queue, times=3)
            for ref in refs:
                waiting = await ref.get()
                assert (waiting.state, waiting.tries, waiting.job.run.version) == (
                    JobState.PENDING,
                    0,
                    2,
                )
            assert first.printed.count(PUT_BACK) == len(refs), "said once for each queue"
            told = await admin.explain(refs[0].id)
            assert told.because is Because.NEWER_VERSION
            assert told.details == {"payloadVersion": 2, "knownVersion": 1}

            with worker_of("v2", server.url, tmp_path):
                assert [await ref.wait(timeout=50) for ref in refs] == ["v2: 700 cents"] * 2
            assert {(await ref.get()).tries for ref in refs} == {1}


async def until_delivered(url: str, queue: str, *, times: int) -> None:
    async with probe(url) as raw:

        async def delivered() -> bool:
            call = f"CONSUMER.INFO.JOBS_WORK.billing-{queue}"
            info: dict[str, Any] = await api.request(raw.connection, call)
            return int(info["delivered"]["consumer_seq"]) >= times

        await until(delivered, f"{queue} was delivered {times} times", deadline=40)


class LooseJobs(Jobs, service="billing"):
    """Older code still, that checked nothing."""

    bill = job(dict[str, Any], str)


async def test_an_operators_retry_keeps_the_version_of_its_payload(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A job that failed under old code is run again by new code, which upgrades it."""
    old, new = before(), afterwards()

    @old.jobs.bill.handle
    async def fail(_job: ActiveJob[billing_v1.Bill]) -> str:
        raise Fail("the old code is broken")

    async with old.connect(server.url), daemon_at(server.url, tmp_path / "jobs.sqlite"):
        ref = await old.jobs.bill.create(billing_v1.Bill(number=1, euros=5))
        await until_state(ref, JobState.FAILED)
    new.jobs.bill.handle(billing_v2.bill)
    async with (
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url) as admin,
        new.connect(server.url),
    ):
        assert (await admin.get(ref.id)).payload_version == 1
        await admin.retry(ref.id)
        again = new.jobs.bill.ref(ref.id)
        assert await again.wait(timeout=20) == "v2: 500 cents"


async def test_a_newer_job_that_is_retried_stays_newer(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    new = afterwards()

    @new.jobs.bill.handle
    async def fail_at_first(_job: ActiveJob[billing_v2.Bill]) -> str:
        raise Fail("not this time")

    async with (
        new.connect(server.url),
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url) as admin,
    ):
        ref = await new.jobs.bill.create(billing_v2.Bill(number=1, cents=7, currency="EUR"))
        await until_state(ref, JobState.FAILED)
        assert (await admin.retry(ref.id)).job.payload_version == 2
        begun = [event for event in await ref.events() if isinstance(event, Begun)]
        assert [event.version for event in begun] == [2, 2]


@pytest.mark.parametrize(
    ("payload", "cause"),
    [
        ({"number": 1}, "the upgrade from version 1 to 2 failed: KeyError: 'euros'"),
        ({"number": "one", "euros": 2}, "number: Input should be a valid integer"),
    ],
)
async def test_an_old_job_that_cannot_be_upgraded_fails_with_the_cause_and_a_try(
    server: EmbeddedServer, payload: dict[str, Any], cause: str
) -> None:
    loose, new = Service(LooseJobs), afterwards()
    new.jobs.bill.handle(billing_v2.bill)
    async with loose.connect(server.url, workers=False), new.connect(server.url):
        ref = await loose.jobs.bill.create(payload)
        failed = await until_state(ref, JobState.FAILED)
    assert failed.tries == 1
    assert failed.last_error is not None
    assert failed.last_error.type == Interruption.PAYLOAD_INVALID
    assert cause in failed.last_error.message


async def test_a_handler_is_tried_on_a_payload_of_older_code_without_a_server() -> None:
    old_json = {"number": 1, "euros": 3}
    new = billing_v2.service.jobs.bill
    assert await run_handler(new, old_json, version=1) == "v2: 300 cents"
    with pytest.raises(JobFailed, match="KeyError: 'euros'"):
        await run_handler(new, {"number": 1}, version=1)
