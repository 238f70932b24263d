"""Queues with a delivery limit: a job that the server gives up is dead, explained, and gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs_admin.actions.guarded_append import GuardedAppender
from jobs_admin.actions.job_keys import JobKeys
from jobs_admin.actions.key_buckets import KeyBuckets
from jobs_admin.actions.key_leases import Leases
from jobs_admin.maintenance.exhausted_jobs import (
    DeliveryLimitReached,
    ExhaustedJobs,
    plan_death,
    stands_for,
)
from jobs_admin.maintenance.stuck_messages import (
    StuckMessages,
    may_be_waiting,
    min_exhausted,
)
from jobs_admin.maintenance.worker_liveness import WorkerLiveness
from tests import given
from tests.admin.upkeep_lab import (
    MaintainedProcess,
    ask,
    consumer,
    forget_heartbeats,
    key_view,
    looking_after,
    producer,
    purge,
    until_kind,
    until_sourced,
    until_state,
    until_swept,
    ward_process,
    worker,
)
from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic, utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.server_clock import ServerClock
from trellis_jobs.jetstream.log.event_log import Latest
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.work.consumer_info import QueueConsumer, QueueConsumers
from trellis_jobs.jetstream.work.messages import InvalidWorkMessage, WorkMessage, WorkMessages
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.keys.state import Slot
from trellis_jobs.model.states import LIVE, OVER, JobState

QUEUE = QueueConsumer(
    name="ward-once",
    at=utc_now(),
    subject="trellis.work.ward.once.*",
    ack_wait=timedelta(seconds=1),
    delivery_limit=1,
    delivered=100,
    pending=10,
    ack_pending=5,
    waiting_pulls=0,
    is_paused=False,
    pause_remaining=None,
)
ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JOBS_WORK.ward-once"


async def test_a_job_whose_worker_died_before_it_said_anything_is_dead_and_says_why(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.once.create(Task())
        await taken_and_killed(server.url, tmp_path / "mute", "once", ref, says_nothing=True)
        async with looking_after(server.url, tmp_path / "jobs.sqlite"), worker(server.url, "once"):
            assert await until_kind(raw, ref, EventKind.DEAD) == ["created", "dead"]
            await raw.until_empty()
        job = await ref.get()
        assert job.last_error is not None
        assert job.last_error.type == "deliveries_exhausted"
        assert "consumer ward-once delivered the job 1 times" in job.last_error.message


async def taken_and_killed(
    url: str, folder: Path, queue: str, ref: JobRef[Any], *, says_nothing: bool = False
) -> None:
    with ward_process(url, folder, queue, says_nothing=says_nothing) as process:
        await process.until_begun(ref)
        process.kill()


async def test_a_death_is_told_of_the_attempt_that_was_lost(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.once.create(Task())
        await taken_and_killed(server.url, tmp_path / "worker", "once", ref)
        async with looking_after(server.url, tmp_path / "jobs.sqlite"), worker(server.url, "once"):
            await until_kind(raw, ref, EventKind.DEAD)
        _, started, dead = [entry.event for entry in await raw.events.history(ref.address)]
        assert isinstance(started, e.Started)
        assert isinstance(dead, e.Dead)
        assert dead.attempt == started.attempt is not None
        assert started.attempt.instance in dead.error.message
        assert (await ref.get()).state is JobState.DEAD


async def test_as_many_deliveries_are_made_as_the_queue_allows(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        ref = await jobs.twice.create(Task())
        for name in ("first", "second"):
            assert await raw.kinds(ref) == ["created"]
            await taken_and_killed(server.url, tmp_path / name, "twice", ref, says_nothing=True)
        async with worker(server.url, "twice") as ward:
            await until_kind(raw, ref, EventKind.DEAD)
            assert ward.runs == []
        assert "delivered the job 2 times" in str((await ref.get()).why)


@pytest.mark.parametrize("queue", ["no_letters", "no_letters_single"])
async def test_without_dead_letters_a_lost_attempt_is_dead_and_a_failure_is_not(
    server: EmbeddedServer, tmp_path: Path, queue: str
) -> None:
    """The admin runtime buries the first, a worker the second: both say the same."""
    async with producer(server.url) as jobs:
        lost = await getattr(jobs, queue).create(Task())
        await taken_and_killed(server.url, tmp_path / "worker", queue, lost)
        async with looking_after(server.url, tmp_path / "jobs.sqlite"), worker(server.url, queue):
            failed = await getattr(jobs, queue).create(Task(do="always fail"))
            await until_state(lost, JobState.DEAD)
            await until_state(failed, JobState.FAILED)


@pytest.mark.parametrize("says_nothing", [True, False], ids=["said nothing", "had started"])
async def test_a_job_is_found_dead_though_its_advisory_was_lost(
    server: EmbeddedServer, tmp_path: Path, says_nothing: bool
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.once_long.create(Task())
        await taken_and_killed(
            server.url, tmp_path / "lost", "once_long", ref, says_nothing=says_nothing
        )
        await forget_heartbeats(raw)
        async with worker(server.url, "once_long") as ward:
            await until_advised(raw)
            await purge(raw, "JOBS_ADVISORIES")
            running = await ward.jobs.once_long.create(Task(do="wait"))
            await ward.until_running(running)
            async with looking_after(server.url, tmp_path / "jobs.sqlite"):
                await until_kind(raw, ref, EventKind.DEAD)
                await until_sourced(raw, 1)
                assert await raw.kinds(running) == ["created", "started"]
                ward.go.set()
                assert (await running.wait(timeout=10)).tries == 1


async def until_advised(raw: Probe) -> None:
    async def there() -> bool:
        info = await api.request(raw.connection, "STREAM.INFO.JOBS_ADVISORIES")
        return int(info["state"]["messages"]) > 0

    await until(there, "the server gave the message up")


async def test_a_job_whose_advisory_was_lost_is_found_behind_many_that_wait_for_their_retry(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """There are more than are read at once, and until it is found, explain promises no start."""
    async with probe(server.url) as raw:
        async with worker(server.url, "patient") as ward:
            many = [await ward.jobs.patient.create(Task(do="always fail")) for _ in range(120)]
            for each in many:
                await until_state(each, JobState.RETRY)
            for_later = await ward.jobs.patient.create(Task())
            assert (await for_later.wait(timeout=10)).tries == 1
        async with producer(server.url) as jobs:
            ref = await jobs.patient.create(Task())
        with ward_process(server.url, tmp_path / "mute", "patient", says_nothing=True) as mute:
            await until(lambda: mute.begun.count(ref.id) == 2, "it was delivered twice")
            await until_advised(raw)
        await purge(raw, "JOBS_ADVISORIES")
        async with worker(server.url, "patient"):
            seldom = timedelta(hours=1)
            async with looking_after(
                server.url, tmp_path / "one.sqlite", reconcile_interval=seldom
            ):
                told = await ask(raw, "Jobs.Explain", {"id": ref.id})
                assert told["because"] == "may-be-given-up"
            async with looking_after(server.url, tmp_path / "two.sqlite"):
                await until_kind(raw, ref, EventKind.DEAD)
                assert await raw.work_messages() == len(many)
        assert {(await raw.kinds(each))[-1] for each in many} == {EventKind.RETRY}


async def test_a_message_that_waits_for_its_worker_is_not_taken_for_stuck(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It was delivered once, and its next delivery waits until a worker requests one."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        ref = await jobs.twice.create(Task())
        await taken_and_killed(server.url, tmp_path / "mute", "twice", ref, says_nothing=True)
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - began < 4:  # three ack_waits prove exhaustion
            await until_swept(daemon, "stuck messages")
        assert await raw.kinds(ref) == ["created"]
        async with worker(server.url, "twice"):
            assert (await ref.wait(timeout=10)).tries == 1


@asynccontextmanager
async def a_waiting_job(
    url: str, folder: Path
) -> AsyncIterator[tuple[JobRef[Report], Probe, MaintainedProcess]]:
    """Taken, and held by a worker that says nothing."""
    async with producer(url) as jobs, probe(url) as raw:
        ref = await jobs.once.create(Task())
        with ward_process(url, folder, "once", says_nothing=True) as mute:
            await mute.until_begun(ref)
            yield ref, raw, mute


def advisory(**changes: Any) -> bytes:
    said = {
        "type": "io.nats.jetstream.advisory.v1.max_deliver",
        "id": "made up",
        "timestamp": datetime.now(UTC).isoformat(),
        "stream": "JOBS_WORK",
        "consumer": "ward-once",
        "stream_seq": 1,
        "deliveries": 1,
    }
    return orjson.dumps({**said, **changes})


async def until_dealt_with(raw: Probe) -> None:
    async def all_done() -> bool:
        info = await api.request(raw.connection, "CONSUMER.INFO.JOBS_ADVISORIES.jobs-advisories")
        stored = await api.request(raw.connection, "STREAM.INFO.JOBS_ADVISORIES")
        dealt_with = int(info["ack_floor"]["stream_seq"])
        return dealt_with == int(stored["state"]["last_seq"])

    await until(all_done, "every advisory is dealt with")


async def tell(raw: Probe, *bodies: bytes) -> None:
    for body in bodies:
        answer = await raw.connection.request(ADVISORY, body)
        assert "error" not in orjson.loads(answer.data)


async def test_advisories_that_are_none_of_ours_change_nothing_and_stop_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    long_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    async with (
        a_waiting_job(server.url, tmp_path / "mute") as (ref, raw, _),
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        await tell(
            raw,
            b"",
            b"not JSON",
            b"[]",
            b'{"stream": "JOBS_WORK"}',
            advisory(stream_seq="one"),
            advisory(stream_seq=-1),
            advisory(timestamp="yesterday"),
            advisory(stream="ANOTHER"),
            advisory(stream_seq=4_711),
            # Of a stream that was deleted: its sequences start again at 1.
            advisory(timestamp=long_ago),
        )
        await until_dealt_with(raw)
        assert await raw.kinds(ref) == ["created"]
        assert await raw.work_messages() == 1
        await tell(raw, advisory())
        assert await until_kind(raw, ref, EventKind.DEAD) == ["created", "dead"]


NEXT_YEAR = (datetime.now(UTC) + timedelta(days=365)).isoformat()
MADE_UP = {
    "of a consumer without a limit": {"consumer": "ward-plain"},
    "of a consumer of another queue": {"consumer": "ward-once"},
    "of no consumer": {"consumer": "ward-unknown"},
    "of what is no name": {"consumer": "ward.plain.>"},
    "of a name without end": {"consumer": "x" * 100_000},
}


@pytest.mark.parametrize("changes", MADE_UP.values(), ids=MADE_UP.keys())
async def test_a_forged_advisory_kills_no_job(
    server: EmbeddedServer, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """A queue without a limit gives nothing up, whatever is said, and of whatever time."""
    async with (
        probe(server.url) as raw,
        worker(server.url, "plain", "once") as ward,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        ref = await ward.jobs.plain.create(Task(do="wait"))
        await ward.until_running(ref)
        later = await ward.jobs.once.create(Task())
        assert (await later.wait(timeout=10)).tries == 1
        said = {"timestamp": NEXT_YEAR, "stream_seq": 1, "deliveries": 5}
        await tell(raw, advisory(**said | changes))
        await until_dealt_with(raw)
        assert await raw.kinds(ref) == ["created", "started"]
        ward.go.set()
        assert (await ref.wait(timeout=10)).tries == 1


async def test_an_advisory_of_fewer_deliveries_than_there_may_be_kills_no_job(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        probe(server.url) as raw,
        worker(server.url, "twice") as ward,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        ref = await ward.jobs.twice.create(Task(do="wait"))
        await ward.until_running(ref)
        await tell(raw, advisory(consumer="ward-twice", deliveries=1))
        await until_dealt_with(raw)
        assert await raw.kinds(ref) == ["created", "started"]
        ward.go.set()
        assert (await ref.wait(timeout=10)).tries == 1


async def test_when_a_message_was_given_up_is_not_after_the_server_heard_of_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The advisory was there before the job was started, though it says that it will come."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.once.create(Task(do="wait"))
        await until_sourced(raw, 1)
        await tell(raw, advisory(timestamp=NEXT_YEAR))
        async with worker(server.url, "once") as ward:
            await ward.until_running(ref)
            async with looking_after(server.url, tmp_path / "jobs.sqlite"):
                await until_dealt_with(raw)
            assert await raw.kinds(ref) == ["created", "started"]
            ward.go.set()
            assert (await ref.wait(timeout=10)).tries == 1


async def test_when_a_job_was_started_is_not_for_its_worker_to_say(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given up, then started again by a worker whose clock is an hour behind."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.once.create(Task(do="wait"))
        await until_sourced(raw, 1)
        given_up = datetime.now(UTC).isoformat()
        async with worker(server.url, "once", ahead=timedelta(hours=-1)) as ward:
            await ward.until_running(ref)
            async with looking_after(server.url, tmp_path / "jobs.sqlite"):
                await tell(raw, advisory(timestamp=given_up))
                await until_dealt_with(raw)
            assert await raw.kinds(ref) == ["created", "started"]
            ward.go.set()
            assert (await ref.wait(timeout=10)).tries == 1


async def test_an_advisory_that_repeats_kills_once(server: EmbeddedServer, tmp_path: Path) -> None:
    async with a_waiting_job(server.url, tmp_path / "mute") as (ref, raw, _):
        async with (
            looking_after(server.url, tmp_path / "one.sqlite"),
            looking_after(server.url, tmp_path / "two.sqlite"),
        ):
            await tell(raw, *[advisory()] * 20)
            await until_dealt_with(raw)
        assert await raw.kinds(ref) == ["created", "dead"]
        assert await raw.work_messages() == 0


async def test_an_advisory_of_a_job_that_is_over_only_clears_its_message_away(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with a_waiting_job(server.url, tmp_path / "mute") as (ref, raw, _):
        await ref.cancel()
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            await tell(raw, advisory())
            await until_dealt_with(raw)
        assert await raw.kinds(ref) == ["created", "cancelled"]
        assert await raw.work_messages() == 0


async def test_a_late_advisory_does_not_kill_a_job_that_runs_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A consumer that was deleted and created again delivers what it had given up."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.once.create(Task(do="wait"))
        await until_sourced(raw, 1)
        given_up = datetime.now(UTC).isoformat()
        async with worker(server.url, "once") as ward:
            await ward.until_running(ref)
            async with looking_after(server.url, tmp_path / "jobs.sqlite"):
                await tell(raw, advisory(timestamp=given_up))
                await until_dealt_with(raw)
            assert await raw.work_messages() == 1
            ward.go.set()
            assert (await ref.wait(timeout=10)).tries == 1


async def test_a_key_is_free_again_after_its_holder_was_given_up(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref, key = await jobs.keyed_once.create(Task()), key_view(raw, jobs.keyed_once)
        await taken_and_killed(server.url, tmp_path / "worker", "keyed_once", ref)
        await key.until_held_by(ref)
        async with (
            looking_after(server.url, tmp_path / "jobs.sqlite"),
            worker(server.url, "keyed_once") as ward,
        ):
            await until_kind(raw, ref, EventKind.DEAD)
            await key.until_empty()
            assert (await (await ward.jobs.keyed_once.create(Task())).wait(timeout=10)).tries == 1


async def test_a_job_without_a_limit_survives_thirty_shutdowns(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        ref = await jobs.single.create(Task(do="wait"))
        for _ in range(30):
            async with worker(server.url, "single") as ward:
                await ward.until_running(ref)
        assert (await consumer(raw, "single"))["num_redelivered"] == 1
        async with worker(server.url, "single") as ward:
            await ward.until_running(ref)
            ward.go.set()
            assert (await ref.wait(timeout=10)).tries == 1
        kinds = await raw.kinds(ref)
        assert kinds == ["created", *["started", "retry"] * 30, "started", "completed"]


# The same, step by step


def keys_of(raw: Probe) -> JobKeys:
    leases = Leases(ServerClock(raw.connection, monotonic), monotonic)
    buckets = KeyBuckets(raw.connection, monotonic)
    return JobKeys(raw.connection, raw.events, leases, buckets, utc_now)


def watcher(raw: Probe, clock: list[float]) -> StuckMessages:
    """The search for stuck messages, at a time that the test chooses."""
    appender, work = GuardedAppender(raw.connection, raw.events), WorkMessages(raw.connection)
    keys = keys_of(raw)
    return StuckMessages(
        appender=appender,
        work=work,
        consumers=QueueConsumers(raw.connection),
        keys=keys,
        exhausted_jobs=ExhaustedJobs(appender=appender, work=work, keys=keys, now=utc_now),
        liveness=WorkerLiveness(Presence(raw.connection, raw.features), lambda: clock[0]),
        monotonic=lambda: clock[0],
    )


async def test_a_message_gets_the_time_of_all_its_deliveries_before_it_is_given_up(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    clock = [1_000.0]
    async with producer(server.url) as jobs, probe(server.url) as raw:
        stuck = watcher(raw, clock)
        ref = await jobs.once.create(Task())
        await taken_and_killed(server.url, tmp_path / "mute", "once", ref, says_nothing=True)
        async with worker(server.url, "once"):
            await until_advised(raw)
        for seconds in (0, 1.9):
            clock[0] = 1_000.0 + seconds
            await stuck.sweep()
            assert await raw.kinds(ref) == ["created"]
        clock[0] = 1_002.0
        await stuck.sweep()
        assert await raw.kinds(ref) == ["created", "dead"]


async def test_a_message_that_took_the_place_of_a_stuck_one_is_not_buried_for_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The work queue was created again in that moment, and its sequences start again."""

    class MadeAnew(WorkMessages):
        async def at(self, sequence: int) -> WorkMessage | InvalidWorkMessage | None:
            found = await super().at(sequence)
            assert found is not None
            return replace(found, stored_at=found.stored_at + timedelta(minutes=1))

    clock = [1_000.0]
    async with producer(server.url) as jobs, probe(server.url) as raw:
        stuck = watcher(raw, clock)
        ref = await jobs.once.create(Task())
        await taken_and_killed(server.url, tmp_path / "mute", "once", ref, says_nothing=True)
        async with worker(server.url, "once"):
            await until_advised(raw)
        await stuck.sweep()
        clock[0] = 1_002.0
        stuck.work = MadeAnew(raw.connection)
        await stuck.sweep()
        assert await raw.kinds(ref) == ["created"]
        assert await raw.work_messages() == 1


async def test_a_job_that_is_taken_over_meanwhile_is_not_buried(
    server: EmbeddedServer,
) -> None:
    """It waited when it was looked at, and runs when its end is to be written."""
    async with worker(server.url, "once") as ward, probe(server.url) as raw:
        seen: list[Latest | None] = []

        class AMomentAgo(GuardedAppender):
            async def current(self, job: JobAddress) -> Latest | None:
                if not seen:
                    seen.append(await super().current(job))
                return seen[0]

        ward.service.quiet()
        ref = await ward.jobs.once.create(Task(do="wait"))
        await until_sourced(raw, 1)
        appender, work = AMomentAgo(raw.connection, raw.events), WorkMessages(raw.connection)
        await appender.current(ref.address)
        ward.service.resume()
        await ward.until_running(ref)
        stands_for_it = await work.at(1)
        assert isinstance(stands_for_it, WorkMessage)
        exhausted_jobs = ExhaustedJobs(appender=appender, work=work, keys=keys_of(raw), now=utc_now)
        await exhausted_jobs.mark_dead(
            stands_for_it, DeliveryLimitReached("ward-once", 1, utc_now())
        )
        assert await raw.kinds(ref) == ["created", "started"]
        assert await raw.work_messages() == 1
        ward.go.set()
        assert (await ref.wait(timeout=10)).tries == 1


# What an exhausted message means, decided without a server


def test_a_job_that_waits_for_its_key_may_be_in_the_hands_of_a_worker() -> None:
    status = given.status_in(JobState.PENDING)
    others, own = given.slot("another"), given.slot("this")

    def may_wait(*active: Slot) -> bool:
        key = given.key_state(active=active)
        return may_be_waiting(status, "this", key, given.after(9))

    assert (may_wait(others), may_wait(own), may_wait()) == (True, False, False)
    assert not may_be_waiting(status, "this", None, given.after(9))


def test_a_job_that_waits_for_its_next_try_may_be_in_the_hands_of_a_worker() -> None:
    status = given.status_in(JobState.RETRY, next_attempt_at=given.after(60))
    assert may_be_waiting(status, "this", None, given.after(59))
    assert not may_be_waiting(status, "this", None, given.after(61))


def message(**changes: Any) -> WorkMessage:
    return replace(
        WorkMessage(given.REPORT, 11, given.created(), 41, given.WORK, given.NOON), **changes
    )


def stands(state: JobState, **changes: Any) -> Latest:
    return Latest(Head(17, given.status_in(state, **changes)), given.CONTEXT)


EXHAUSTED = DeliveryLimitReached("documents-render-report", 4, given.after(9))


@pytest.mark.parametrize("state", sorted(LIVE))
def test_whatever_the_job_was_doing_it_is_dead(state: JobState) -> None:
    latest = stands(state)
    dead = plan_death(message(), EXHAUSTED, latest, given.after(9))
    assert dead is not None
    assert dead.attempt == latest.head.status.owner
    assert dead.tries == dead.error.tries == latest.head.status.tries
    assert "documents-render-report delivered the job 4 times" in dead.error.message


@pytest.mark.parametrize("state", sorted(OVER))
def test_a_job_that_is_over_does_not_die(state: JobState) -> None:
    assert plan_death(message(), EXHAUSTED, stands(state), given.after(9)) is None


def test_a_message_of_another_run_says_nothing_about_this_one() -> None:
    assert plan_death(message(run=5), EXHAUSTED, stands(JobState.PENDING), given.after(9)) is None


def test_a_job_that_runs_from_another_message_does_not_die_with_this_one() -> None:
    elsewhere = Attempt("another", "pod-9", "42@1774699200000000000", 1)
    latest = stands(JobState.ACTIVE, owner=elsewhere)
    assert not stands_for(message(), latest.head.status)
    assert plan_death(message(), EXHAUSTED, latest, given.after(9)) is None


def test_a_queue_that_grows_or_shrinks_while_it_is_counted_has_no_exhausted_messages() -> None:
    """Otherwise each sweep of a busy queue would read every message that is being worked on."""
    grown, shrunk = replace(QUEUE, pending=40), replace(QUEUE, ack_pending=1)
    assert min_exhausted(QUEUE, 15, QUEUE) == 0
    assert min_exhausted(QUEUE, 30, grown) <= 0
    assert min_exhausted(QUEUE, 12, shrunk) <= 0
    assert min_exhausted(QUEUE, 17, QUEUE) == 2
