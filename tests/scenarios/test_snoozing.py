"""Handlers snooze their jobs on a real server: later, counted, bounded, and no try used."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import pytest
from pydantic import BaseModel

from tests.scenarios.test_a_worker_dies import killed_when, legal_history
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import probe, producer, until_state, worker
from tests.support.worker_process import worker_process
from trellis_jobs import (
    ActiveJob,
    CallNext,
    JobDead,
    JobExpired,
    JobFailed,
    JobRef,
    Jobs,
    JobState,
    KeyConcurrency,
    QueueDepth,
    Secret,
    Service,
    Snooze,
    job,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import Expired, RetryScheduled, Started
from trellis_jobs.testing import inline

AN_HOUR: Final = timedelta(hours=1)


class Transfer(BaseModel):
    """Each entry of `then` is what one attempt does, and the last one repeats."""

    then: list[str]
    account: str = "acme"


class BankJobs(Jobs, service="bank"):
    pay = job(Transfer, int, concurrency=5, backoff=[0.05], max_deliver=2)
    strict = job(Transfer, int, max_snoozes=2)
    limited = job(Transfer, int, delivery_limit=2)
    hasty = job(Transfer, int, timeout=0.1)
    keyed = job(
        Transfer,
        int,
        concurrency=5,
        key=KeyConcurrency(["/account"]),
        queue=QueueDepth(max_queued_per_key=5),
    )
    threaded = job(Transfer, int)


class Code(BaseModel):
    code: Annotated[str, Secret()]


class VaultJobs(Jobs, service="vault"):
    open = job(Code)


@dataclass
class Bank:
    """`seen` has the try and the number of snoozes that each attempt was told, and its thread."""

    service: Service[BankJobs] = field(default_factory=lambda: Service(BankJobs))
    seen: list[tuple[int, int]] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
    passed: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        jobs = self.service.jobs
        for queue in (jobs.pay, jobs.strict, jobs.limited, jobs.hasty, jobs.keyed):
            queue.handle(self.pay)
        jobs.threaded.handle(self.act)
        self.service.around(self.around)

    @property
    def jobs(self) -> BankJobs:
        return self.service.jobs

    async def around(self, active: ActiveJob[Any], call_next: CallNext) -> Any:
        try:
            return await call_next(active)
        except Snooze as snooze:
            self.passed.append(snooze)
            raise

    async def pay(self, active: ActiveJob[Transfer]) -> int:
        if active.payload.then[0] == "hang":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                active.payload.then.pop(0)
        return self.act(active)

    def act(self, active: ActiveJob[Transfer]) -> int:
        self.seen.append((active.tries, active.snoozes))
        self.threads.append(threading.current_thread().name)
        steps = active.payload.then
        match steps[min(len(self.seen), len(steps)) - 1]:
            case "snooze":
                raise Snooze(f"closed, {active.snoozes} before", for_=0.2)
            case "snooze for an hour":
                raise Snooze("closed", for_=AN_HOUR)
            case "fail":
                raise RuntimeError("503")
            case _:
                return active.tries


@asynccontextmanager
async def bank(server: EmbeddedServer) -> AsyncIterator[Bank]:
    made = Bank()
    async with made.service.connect(server.url):
        yield made


async def snoozes_of(ref: JobRef[Any]) -> list[RetryScheduled]:
    found = [event for event in await ref.events() if isinstance(event, RetryScheduled)]
    assert all(event.is_snooze for event in found)
    return found


async def test_a_job_that_is_snoozed_three_times_completes_on_its_first_try(
    server: EmbeddedServer,
) -> None:
    async with bank(server) as made, probe(server.url) as raw:
        ref = await made.jobs.pay.create(Transfer(then=["snooze", "snooze", "snooze", "pay"]))
        assert await ref.wait(timeout=10) == 1
        assert made.seen == [(1, 0), (1, 1), (1, 2), (1, 3)]
        done = await ref.get()
        assert (done.tries, done.snoozes, done.errors, done.last_error) == (1, 3, (), None)
        assert (done.snoozed_until, done.snooze_reason) == (None, "closed, 2 before")
        assert await raw.kinds(ref) == [
            "created",
            *("started", "retry") * 3,
            "started",
            "completed",
        ]
        await raw.until_empty()


async def test_a_snoozed_job_never_starts_early_and_each_reason_is_kept(
    server: EmbeddedServer,
) -> None:
    async with bank(server) as made:
        ref = await made.jobs.pay.create(Transfer(then=["snooze", "snooze", "pay"]))
        await ref.wait(timeout=10)
        snoozes = await snoozes_of(ref)
        assert [event.error.message for event in snoozes] == [
            "closed, 0 before",
            "closed, 1 before",
        ]
        starts = [event.at for event in await ref.events() if isinstance(event, Started)]
        for event, next_start in zip(snoozes, starts[1:], strict=True):
            assert event.next_attempt_at is not None
            assert event.next_attempt_at <= next_start


async def test_tries_are_counted_after_snoozes_as_if_there_had_been_none(
    server: EmbeddedServer,
) -> None:
    async with bank(server) as made:
        ref = await made.jobs.pay.create(Transfer(then=["snooze", "fail", "snooze", "fail"]))
        with pytest.raises(JobDead, match="503"):
            await ref.wait(timeout=10)
        assert made.seen == [(1, 0), (1, 1), (2, 1), (2, 2)]
        dead = await ref.get()
        assert (dead.tries, dead.snoozes) == (2, 2)
        assert [(error.type, error.tries) for error in dead.errors] == [
            ("RuntimeError", 1),
            ("RuntimeError", 2),
        ]


async def test_one_snooze_too_many_fails_the_job(server: EmbeddedServer) -> None:
    async with bank(server) as made:
        ref = await made.jobs.strict.create(Transfer(then=["snooze"]))
        with pytest.raises(JobFailed, match=r"snoozes_exhausted: .* raise the queue's max_snoozes"):
            await ref.wait(timeout=10)
        assert made.seen == [(1, 0), (1, 1), (1, 2)]
        failed = await ref.get()
        assert (failed.snoozes, len(failed.errors)) == (2, 1)


async def test_a_snooze_on_the_last_delivery_ends_the_job_and_says_why(
    server: EmbeddedServer,
) -> None:
    async with bank(server) as made:
        ref = await made.jobs.limited.create(Transfer(then=["snooze"]))
        with pytest.raises(JobDead, match=r"deliveries_exhausted: .* on its last delivery"):
            await ref.wait(timeout=10)
        assert made.seen == [(1, 0), (1, 1)]


async def test_a_job_that_is_snoozed_past_its_deadline_expires_at_its_deadline(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="trellis_jobs")
    async with bank(server) as made:
        ref = await made.jobs.pay.create(Transfer(then=["snooze for an hour"]), deadline=0.5)
        with pytest.raises(JobExpired):
            await ref.wait(timeout=10)
        asleep = await ref.get()
        expired = (await ref.events())[-1]
        assert isinstance(expired, Expired)
        assert asleep.deadline is not None
        assert expired.at >= asleep.deadline
        assert len(made.seen) == 1
    assert re.search(r"snoozed until its deadline, \S+, when it expires \(1 of 1000\)", caplog.text)


async def test_a_handler_may_name_the_time(server: EmbeddedServer) -> None:
    tomorrow = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    service = Service(BankJobs)

    @service.jobs.pay.handle
    async def pay(_: ActiveJob[Transfer]) -> int:
        raise Snooze("closed", until=tomorrow)

    async with service.connect(server.url):
        ref = await service.jobs.pay.create(Transfer(then=[]))
        asleep = await until_state(ref, JobState.RETRY)
        assert asleep.snoozed_until == asleep.next_attempt_at == tomorrow
        await ref.cancel("not needed")
        assert (await ref.get()).snoozed_until is None


async def test_a_sync_handler_may_snooze_and_middleware_sees_it(server: EmbeddedServer) -> None:
    async with bank(server) as made:
        ref = await made.jobs.threaded.create(Transfer(then=["snooze", "pay"]))
        assert await ref.wait(timeout=10) == 1
        assert made.seen == [(1, 0), (1, 1)]
        assert threading.main_thread().name not in made.threads
        assert [str(each) for each in made.passed] == ["closed, 0 before"]


async def test_a_handler_may_snooze_when_its_timeout_stops_it(server: EmbeddedServer) -> None:
    async with bank(server) as made:
        ref = await made.jobs.hasty.create(Transfer(then=["hang", "snooze for an hour"]))
        asleep = await until_state(ref, JobState.RETRY)
        assert (asleep.tries, asleep.snooze_reason, asleep.errors) == (0, "closed", ())


async def test_a_reason_that_quotes_a_secret_is_stored_without_it() -> None:
    service = Service(VaultJobs)

    @service.jobs.open.handle
    async def open_vault(active: ActiveJob[Code]) -> None:
        if not active.snoozes:
            raise Snooze(f"{active.payload.code} does not work yet", for_=1)

    async with inline(service):
        ref = await service.jobs.open.create(Code(code="open-sesame"))
        [asleep] = await snoozes_of(ref)
        assert asleep.error.message == "[secret] does not work yet"
        assert (await ref.get(reveal=True)).snooze_reason == "[secret] does not work yet"


async def test_the_key_of_a_snoozed_job_is_free_for_others(server: EmbeddedServer) -> None:
    async with bank(server) as made:
        first = await made.jobs.keyed.create(Transfer(then=["snooze for an hour"]))
        asleep = await until_state(first, JobState.RETRY)
        assert asleep.snoozed_until is not None
        second = await made.jobs.keyed.create(Transfer(then=["pay"]))
        assert await second.wait(timeout=10) == 1
        assert (await first.get()).snoozed_until == asleep.snoozed_until


async def test_a_worker_killed_after_it_wrote_the_snooze_costs_no_try_and_no_second_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its message comes again long before the snooze is over, and is put back."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
    ):
        with worker_process(way.url, tmp_path / "victim") as victim:
            await victim.until_ready()
            is_killed = killed_when(way, victim, rb"HPUB \S+\.retry ", Then.FORWARD)
            ref = await jobs.work.create(Task(do="snooze once", text="not yet", seconds=3))
            await until(is_killed, "the worker is killed")
            assert victim.runs == [(ref.id, 1)]
        async with worker(server.url, "work") as bench:
            assert (await ref.wait(timeout=20)).tries == 1
            assert bench.runs == [(ref.id, 1)]
            await raw.until_empty()
        assert await legal_history(raw, ref) == [
            *("created", "started", "retry", "started", "completed")
        ]
        [asleep] = await snoozes_of(ref)
        started = [event for event in await ref.events() if isinstance(event, Started)][-1]
        assert asleep.next_attempt_at is not None
        assert started.at >= asleep.next_attempt_at


async def test_a_snooze_is_an_info_line_with_its_number_and_reason(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="trellis_jobs.worker.outcome_log")
    async with bank(server) as made:
        ref = await made.jobs.pay.create(Transfer(then=["snooze", "pay"]))
        await ref.wait(timeout=10)
    [line, _] = [each for each in caplog.records if vars(each).get("job") == ref.id]
    assert line.levelname == "INFO"
    assert re.fullmatch(
        rf"job {ref.id} of bank/pay snoozed until \S+Z \(1 of 1000\): closed, 0 before",
        line.getMessage(),
    )
    assert (line.exc_info, vars(line)["error"]) == (None, None)
