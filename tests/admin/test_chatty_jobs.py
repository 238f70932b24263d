"""Jobs that say a lot: each note moves the guard, and still everybody gets a word in (D23)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from jobs_admin.actions.guarded_append import GuardedAppender
from jobs_admin.actions.job_actions import ActionRequest, Actions, cancel, legal_from
from jobs_admin.actions.job_follower import JobFollower
from jobs_admin.actions.job_keys import JobKeys
from jobs_admin.actions.key_buckets import KeyBuckets
from jobs_admin.actions.key_leases import Leases
from jobs_admin.api.errors import JobContention
from jobs_admin.maintenance import janitor
from jobs_admin.maintenance.janitor import Janitor
from tests.admin.admin_lab import AdminLab, daemon_at, time_passes, until_projected
from tests.admin.upkeep_lab import purge
from tests.given import progressed, started
from tests.support.example_service import Task
from tests.support.lab import Probe, probe, producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment, utc_now
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client.server_clock import ServerClock
from trellis_jobs.jetstream.log.event_log import FOREVER, EventLog, Latest, Lost, Refused
from trellis_jobs.jetstream.log.expiry import plan_expiry
from trellis_jobs.jetstream.log.history import HistorySlice
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import events as wire

NOTES = 15_000
BETWEEN_NOTES = 0.1


def keys_of(raw: Probe) -> JobKeys:
    monotonic = Environment().monotonic
    leases = Leases(ServerClock(raw.connection, monotonic), monotonic)
    buckets = KeyBuckets(raw.connection, monotonic)
    return JobKeys(raw.connection, raw.events, leases, buckets, utc_now)


async def with_notes(raw: Probe, job: JobAddress) -> Head:
    """The job runs by now, and its handler has said a lot; returns where it stood before."""
    created = await raw.events.head(job)
    began = await raw.events.try_append(created, started(job=job, at=utc_now()))
    assert isinstance(began, Head)
    note = progressed(job=job, at=utc_now())
    subject, data = subjects.lifecycle(job, note.kind), wire.encode(note, began.status, None)
    for _ in range(NOTES):
        await raw.connection.publish(subject, data)
    await raw.connection.flush()
    return began


@asynccontextmanager
async def noting(raw: Probe, job: JobAddress) -> AsyncIterator[None]:
    """As a worker does whose handler always has something to say."""

    async def note() -> None:
        head = await raw.events.head(job)
        while isinstance(head, Head) and not head.status.is_over:
            told = await raw.events.append(head, progressed(job=job, at=utc_now()))
            head = None if isinstance(told, Lost) else told
            await asyncio.sleep(BETWEEN_NOTES)

    running = asyncio.create_task(note())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_chatty_job_is_cancelled_like_any_other(lab: AdminLab) -> None:
    ref = await lab.jobs.slow.create(Task())
    async with probe(lab.url) as raw:
        await with_notes(raw, ref.address)
        async with noting(raw, ref.address):
            changed = await lab.client.cancel(ref.address)
    assert changed.job.state is JobState.CANCELLED


async def test_a_chatty_job_expires_though_the_projection_is_far_behind(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.brief.create(Task())
        long_ago = Latest(await with_notes(raw, ref.address), (await ref.events())[0].context)
        late = utc_now() + timedelta(hours=1)
        async with noting(raw, ref.address), asyncio.timeout(20):
            ended = await GuardedAppender(raw.connection, raw.events).append(
                ref.address, long_ago, lambda latest: plan_expiry(ref.address, latest, late)
            )
        assert ended is not None
        assert (await ref.get()).state is JobState.EXPIRED


async def test_a_stranger_cannot_keep_a_job_from_being_cancelled(lab: AdminLab) -> None:
    """Bytes under its subjects that are no event move the guard all the same."""
    ref = await lab.jobs.slow.create(Task())
    subject = subjects.lifecycle(ref.address, EventKind.PROGRESS)
    await lab.stranger.connection.request(subject, b"rubbish")
    assert (await lab.client.cancel(ref.address)).job.state is JobState.CANCELLED


async def test_a_job_that_never_holds_still_is_given_up_and_that_is_said(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.slow.create(Task())
        subject = subjects.lifecycle(ref.address, EventKind.PROGRESS)

        def and_meanwhile() -> datetime:
            assert raw.connection.publish_nowait(subject, b"rubbish")
            return utc_now()

        actions = Actions(
            connection=raw.connection,
            events=raw.events,
            keys=keys_of(raw),
            alarms=Alarms(raw.connection, raw.features, utc_now),
            now=and_meanwhile,
            timeout=0.2,
        )
        legal = legal_from(EventKind.CANCELLED)
        with pytest.raises(JobContention, match="each append was refused"):
            await actions.carry_out(cancel, ref.address, ActionRequest(by="ann"), legal_from=legal)
        assert await raw.kinds(ref) == ["created"]


async def test_a_late_job_that_never_holds_still_does_not_keep_others_from_expiring(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Disturbed(EventLog):
        async def try_append(
            self, head: Head | None, event: Event, *, timeout: float = FOREVER
        ) -> Head | Refused:
            if event.job == restless.address:
                subject = subjects.lifecycle(restless.address, EventKind.PROGRESS)
                await raw.connection.request(subject, b"rubbish")
            return await super().try_append(head, event, timeout=timeout)

    monkeypatch.setattr(janitor, "PAGE_SIZE", 1)
    seldom = timedelta(days=1)
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        daemon_at(server.url, tmp_path / "jobs.sqlite", janitor_interval=seldom) as daemon,
    ):
        restless = await jobs.brief.create(Task())
        late = await jobs.brief.create(Task())
        await until_projected(daemon, (await raw.events.history(late.address))[-1].sequence)
        time_passes(daemon, timedelta(minutes=1))
        appender = GuardedAppender(
            raw.connection, Disturbed(raw.connection, raw.features), timeout=0.2
        )
        on = partial(daemon.loops.report_progress, "janitor")
        await Janitor(daemon.readers, appender, keys_of(raw), daemon.clock, on).sweep()
        assert await raw.kinds(restless) == ["created"]
        assert await raw.kinds(late) == ["created", "expired"]


async def test_a_job_whose_id_is_used_again_is_not_taken_for_the_one_that_was_read(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.slow.create(Task())
        created = (await ref.events())[0]
        await ref.cancel()
        chase = JobFollower(raw.connection, raw.events, ref.address)
        before = await chase.read()
        assert before is not None
        await purge(raw, "JOBS", subjects.history(ref.address))
        head = await raw.events.try_append(None, created)
        assert isinstance(head, Head)
        after = await chase.after(Refused(head.sequence))
        assert after is not None
        assert (before.job.state, after.job.state) == (JobState.CANCELLED, JobState.PENDING)
        await purge(raw, "JOBS", subjects.history(ref.address))
        assert await chase.after(Refused(0)) is None


async def test_a_replica_that_lags_is_not_taken_for_the_log(server: EmbeddedServer) -> None:
    class Lagging(EventLog):
        async def history_slice(
            self, job: JobAddress, *, after: int = 0, at_least: int = 0
        ) -> HistorySlice:
            return HistorySlice([], 0)

    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.slow.create(Task())
        chase = JobFollower(raw.connection, Lagging(raw.connection, raw.features), ref.address)
        with pytest.raises(NotConfirmed, match=f"a read of {ref.id}"):
            await chase.read()
