"""Workers keep the NAKs of failed tries for a moment and send them together; nothing is lost."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from tests.scenarios.test_stale_messages import take_one
from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe, probe, producer, until_state, worker
from tests.support.worker_process import worker_process
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic, utc_now
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.work.delayed_naks import DelayedNaks
from trellis_jobs.model import events as e
from trellis_jobs.model import nak_timing
from trellis_jobs.model.states import JobState

NEVER = 3600.0


@dataclass
class SentNak:
    """`job` is the number of the job in its queue, from 1 on. `at` is when the server got it."""

    job: int
    delay: float
    at: float


@dataclass
class Naks:
    """The NAKs that the server received, in this order."""

    sent: list[SentNak] = field(default_factory=list)

    @property
    def jobs(self) -> list[int]:
        return [nak.job for nak in self.sent]

    def receive(self, message: Message) -> None:
        info = read_reply(message.subject)
        if info is not None and message.data.startswith(b"-NAK"):
            options = orjson.loads(message.data.removeprefix(b"-NAK") or b"{}")
            delay = options.get("delay", 0) / 1e9
            self.sent.append(SentNak(info.stream_sequence, delay, time.time()))


@asynccontextmanager
async def naks_of(raw: Probe, queue: str) -> AsyncIterator[Naks]:
    naks = Naks()
    await raw.connection.subscribe(f"$JS.ACK.JOBS_WORK.lab-{queue}.>", naks.receive)
    await raw.connection.flush()
    yield naks
    await raw.connection.flush()


async def until_failed(*refs: JobRef[Report]) -> None:
    for ref in refs:
        await until_state(ref, JobState.RETRY)


async def retry_of(ref: JobRef[Report]) -> e.RetryScheduled:
    [retry] = [event for event in await ref.events() if isinstance(event, e.RetryScheduled)]
    return retry


async def test_all_workers_send_their_naks_at_the_same_times(server: EmbeddedServer) -> None:
    interval = nak_timing.BURST_INTERVAL
    first_of: dict[str, int] = {}
    async with (
        worker(server.url, "slow") as bench,
        worker(server.url, "slow"),
        probe(server.url) as raw,
        naks_of(raw, "slow") as naks,
    ):
        failed = []
        for number in range(1, 21):
            ref = await bench.jobs.slow.create(Task(do="later", seconds=60))
            await until_failed(ref)
            retry = await retry_of(ref)
            assert retry.attempt is not None
            first_of.setdefault(retry.attempt.instance, number)
            failed.append(retry.at.timestamp())
        await until(lambda: len(naks.sent) == len(failed), "all NAKs are sent")
    for nak in naks.sent:
        next_burst = (failed[nak.job - 1] // interval + 1) * interval
        assert nak.job in first_of.values() or nak.at >= next_burst


async def test_a_retry_never_starts_early_and_needs_one_delivery(server: EmbeddedServer) -> None:
    delays = [0.0, 0.005, 0.02, 0.1, 0.3, 0.5, 0.51, 0.7] * 5
    async with worker(server.url, "slow") as bench:
        refs = [
            await bench.jobs.slow.create(Task(do="later", seconds=seconds)) for seconds in delays
        ]
        for ref in refs:
            assert (await ref.wait(timeout=20)).tries == 2
            _, _, retry, started, _ = await ref.events()
            assert isinstance(retry, e.RetryScheduled)
            assert isinstance(started, e.Started)
            assert retry.next_attempt_at is not None
            assert started.at >= retry.next_attempt_at
            assert started.attempt is not None
            assert started.attempt.delivery == 2


async def test_a_stopping_worker_sends_the_naks_that_it_has_kept(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nak_timing, "BURST_INTERVAL", NEVER)
    async with probe(server.url) as raw:
        async with worker(server.url, "slow") as bench, naks_of(raw, "slow") as naks:
            refs = [await bench.jobs.slow.create(Task(do="later", seconds=60)) for _ in range(3)]
            await until_failed(*refs)
            await raw.connection.flush()
            assert len(naks.sent) == 1
        await until(lambda: len(naks.sent) == 3, "all NAKs are sent")
    assert sorted(naks.jobs) == [1, 2, 3]
    assert all(0 < nak.delay <= 60 for nak in naks.sent)


async def test_a_job_that_is_put_back_by_a_stopping_worker_does_not_wait_for_others(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nak_timing, "BURST_INTERVAL", NEVER)
    async with producer(server.url) as jobs, probe(server.url) as raw:
        async with worker(server.url, "slow", grace=0) as bench, naks_of(raw, "slow") as naks:
            refs = [await jobs.slow.create(Task(do="later", seconds=60)) for _ in range(2)]
            await until_failed(*refs)
            interrupted = await jobs.slow.create(Task(do="wait"))
            await bench.until_running(interrupted)
        await until(lambda: 3 in naks.jobs, "the job that ran is put back")
    [nak] = [nak for nak in naks.sent if nak.job == 3]
    assert nak.delay == 0
    assert naks.jobs.index(3) < len(naks.jobs) - 1


async def test_a_worker_that_is_killed_with_kept_naks_loses_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The server redelivers the jobs when their leases end."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        victim_folder = tmp_path / "victim"
        with worker_process(server.url, victim_folder, burst_interval=NEVER) as victim:
            await victim.until_ready()
            async with naks_of(raw, "work") as naks:
                refs = [await jobs.work.create(Task(do="fail once")) for _ in range(2)]
                await until(lambda: victim.output.count("next try in") == 2, "both tries fail")
                victim.kill()
            assert len(naks.sent) == 1
        async with worker(server.url, "work") as other:
            for ref in refs:
                assert (await ref.wait(timeout=20)).tries == 2
    assert sorted(other.runs) == sorted((ref.id, 2) for ref in refs)


async def test_a_nak_that_could_not_be_sent_in_time_does_not_take_the_job_from_its_next_worker(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nak_timing, "BURST_INTERVAL", NEVER)
    async with (
        worker(server.url, "work") as bench,
        probe(server.url) as raw,
        naks_of(raw, "work") as naks,
    ):
        refs = [await bench.jobs.work.create(Task(do="fail once")) for _ in range(2)]
        await until_failed(*refs)
        time.sleep(1.5)  # noqa: ASYNC251 - the loop is blocked until the leases have ended
        for ref in refs:
            assert (await ref.wait(timeout=20)).tries == 2
    assert len(naks.sent) == 1


async def test_after_an_outage_only_naks_of_jobs_that_are_not_due_are_sent(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was killed may have delivered the other jobs again, and they may run."""
    monkeypatch.setattr(nak_timing, "BURST_INTERVAL", NEVER)
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        naks_of(raw, "slow") as naks,
        fault_proxy(server.url) as way,
        worker(way.url, "slow"),
    ):
        await until_failed(await jobs.slow.create(Task(do="later", seconds=60)))
        soon = await jobs.slow.create(Task(do="later", seconds=2))
        later = await jobs.slow.create(Task(do="later", seconds=60))
        await until_failed(soon, later)
        way.refuse()
        due_at = (await retry_of(soon)).next_attempt_at
        assert due_at is not None
        await until(lambda: utc_now() > due_at + timedelta(seconds=0.5), "the job is due")
        assert naks.jobs == [1]
        way.admit()
        await until(lambda: 3 in naks.jobs, "the NAK of the other job is sent")
    assert naks.jobs == [1, 3]
    assert 0 < naks.sent[1].delay < 60


async def test_a_message_has_one_nak_that_of_its_newest_delivery(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        naks_of(raw, "work") as sent,
    ):
        naks = DelayedNaks(raw.connection, utc_now, monotonic)
        for _ in range(2):
            await jobs.work.create(Task())
        first, second = await take_one(raw), await take_one(raw)
        naks.add(first, timedelta(seconds=60))
        naks.add(second, timedelta(seconds=60))
        naks.add(second, timedelta(seconds=30))
        await until(lambda: 2 in sent.jobs, "the NAKs are sent")
        naks.flush()
        naks.add(first, timedelta(seconds=20))
        await until(lambda: sent.jobs.count(1) == 2, "after a flush each is sent at once")
    assert sent.jobs == [1, 2, 1]
    assert 29 < sent.sent[1].delay <= 30
