"""Jobs leave the log when their time is up, and nothing of a job that went on leaves with them."""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from jobs_admin.api.errors import ConfigError
from jobs_admin.maintenance.retention.archive import Archive, FolderArchive, NoArchive
from jobs_admin.maintenance.retention.dry_run import count_due
from jobs_admin.maintenance.retention.retention import Retention, RetentionDependencies
from jobs_admin.projection.projector import Projector
from jobs_admin.projection.rebuild import rebuild
from jobs_admin.projection.store import Projection
from jobs_admin.projection.verify import verify
from jobs_admin.projection.writer import Writer
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.candidates import COUNT_ENDED, DUE
from jobs_admin.reads.past_stats import stats_at
from jobs_admin.reads.readers import Readers
from jobs_admin.retention_policy import parse, standard
from tests.admin.made_log import of, rows_of
from tests.given import FIRST, REPORT, SECOND, completed, created, failed, notes, started
from tests.support.example_service import Task
from tests.support.lab import Probe, probe, producer, worker
from trellis_jobs import JobEnded, JobRef
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.jetstream.log.purge import has_events, purge_job
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry, Job
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import OVER, JobState
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire

HOUR: Final = timedelta(hours=1)
OF_THE_PAST: Final = {
    "job_activity",
    "hourly_activity",
    "state_changes",
    "attempt_durations",
    "worker_presence_projection",
    "projection_metadata",
}


@dataclass
class Sweeper:
    """A projection with retention, at a moment of one's choice."""

    raw: Probe
    projector: Projector
    readers: Readers
    folder: Path

    def retention(
        self,
        *,
        later: timedelta,
        policy: str = "",
        archive: Archive | None = None,
        report_progress: Callable[[], None] | None = None,
    ) -> Retention:
        async def now() -> datetime:
            return utc_now() + later

        doors = RetentionDependencies(self.raw.connection, self.readers, self.projector)
        kept = archive or FolderArchive(self.folder)
        return Retention(parse(policy), kept, doors, now, report_progress)

    async def due(self, later: timedelta, policy: str = "") -> Counter[str]:
        return await count_due(self.readers, parse(policy), utc_now() + later)

    async def catch_up(self) -> None:
        info = await api.request(self.raw.connection, "STREAM.INFO.JOBS")
        await self.projector.run(until=int(info["state"]["last_seq"]))

    def store_earlier(self, by: timedelta) -> None:
        """In the projection only."""
        query = (
            "UPDATE jobs_projection SET last_stored_at = last_stored_at - ?1, "
            "moved_at = moved_at - ?1"
        )
        path = self.folder.with_name("jobs.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(query, (by // timedelta(microseconds=1),))

    async def is_as_rebuilt(self) -> bool:
        """Row by row, but for what happened when, which is told of purged jobs as well."""
        path, fresh = self.folder.with_name("jobs.sqlite"), self.folder.with_name("fresh.sqlite")
        await rebuild(fresh, LogFeed(self.raw.connection))
        live, made = rows_of(path), rows_of(fresh)
        return all(live[table] == made[table] for table in set(live) - OF_THE_PAST)

    async def is_listed(self, ref: JobRef[Any]) -> bool:
        return await reads.find(self.readers, ref.id) is not None

    def archived(self) -> list[dict[str, Any]]:
        lines = [gzip.decompress(path.read_bytes()) for path in sorted(self.folder.glob("*.gz"))]
        return [orjson.loads(line) for each in lines for line in each.splitlines()]


@asynccontextmanager
async def sweeper(url: str, folder: Path) -> AsyncIterator[Sweeper]:
    path = folder / "jobs.sqlite"
    async with probe(url) as raw:
        await provision(raw.connection, Topology(raw.features))
        async with (
            Projector.open(LogFeed(raw.connection), path) as projector,
            Readers.open(path) as readers,
        ):
            yield Sweeper(raw, projector, readers, folder / "old")


async def ended(ref: JobRef[Any]) -> JobRef[Any]:
    try:
        await ref.wait(timeout=20)
    except JobEnded:
        return ref
    return ref


async def test_a_job_whose_time_is_up_is_archived_purged_and_no_longer_listed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with worker(server.url) as bench, sweeper(server.url, tmp_path) as at:
        done = await ended(await bench.jobs.work.create(Task(text="done")))
        failed = await ended(await bench.jobs.work.create(Task(do="give up")))
        waiting = await bench.jobs.work.create(Task(do="wait"))
        await bench.until_running(waiting)
        history = await at.raw.kinds(done)
        await at.catch_up()
        retention = at.retention(later=timedelta(days=8))
        assert await at.due(timedelta(days=8)) == {"completed": 1}
        assert (await retention.sweep()).removed == {"completed": 1}
        assert await at.raw.kinds(done) == []
        assert [await at.is_listed(ref) for ref in (done, failed, waiting)] == [False, True, True]
        [line] = at.archived()
        assert line["job"]["id"] == done.id
        assert [event["eventType"] for event in line["events"]] == history
        assert (await retention.sweep()).removed == {}
        bench.go.set()


class Meanwhile(FolderArchive):
    """Something happens to each job between its archive and its purge."""

    def __init__(self, at: Sweeper, happens: Callable[[Job, list[Entry]], Awaitable[None]]) -> None:
        super().__init__(at.folder)
        self._happens = happens

    async def keep(self, histories: Any, day: Any) -> None:
        await super().keep(histories, day)
        for job, history in histories:
            await self._happens(job, history)


@pytest.mark.parametrize("is_known", [True, False])
async def test_of_a_job_that_went_on_what_is_left_in_the_log_is_left(
    server: EmbeddedServer, tmp_path: Path, is_known: bool
) -> None:
    """An operator's retry comes between the archive and the purge, and wins.

    The projection may have taken it in by then, or take it in afterwards.
    """

    async def happens(job: Job, history: list[Entry]) -> None:
        await retried(at.raw, job, history)
        if is_known:
            await at.catch_up()

    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw, REPORT, failed(notes=notes("a line"), attempt=FIRST))
        await at.catch_up()
        late = at.retention(later=timedelta(days=31), archive=Meanwhile(at, happens))
        assert (await late.sweep()).removed == {}
        [left] = await at.raw.events.history(REPORT)
        assert left.event.kind is e.EventKind.RETRIED
        await at.catch_up()
        [(number, state)] = await at.readers.rows("SELECT job, state FROM jobs_projection")
        assert (number, state) == (left.sequence, "pending")
        assert await at.is_as_rebuilt()
        of_kind = "SELECT events FROM job_activity WHERE kind = 'retried' AND service = ''"
        assert await at.readers.row(of_kind) == (1,)


class LaggingReplica(Histories):
    """Reads as the log was before its newest events, and before it was purged."""

    def __init__(self, connection: Connection, had: list[LogMessage]) -> None:
        super().__init__(connection)
        self._had = had

    async def _all_messages(self, job: JobAddress, after: int) -> list[LogMessage]:
        return [message for message in self._had if message.sequence > after]


async def test_a_job_that_a_lagging_replica_does_not_have_stays_listed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw, REPORT, failed(attempt=FIRST))
        await at.catch_up()
        late = at.retention(later=timedelta(days=31))
        late._histories = LaggingReplica(at.raw.connection, [])
        assert (await late.sweep()).removed == {}
        assert await at.is_as_rebuilt()


async def test_of_a_job_that_went_on_a_lagging_replica_has_not_the_last_word(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It still has what was purged, and not the retry that the projection has shown."""

    async def happens(job: Job, history: list[Entry]) -> None:
        await retried(at.raw, job, history)
        await at.catch_up()

    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw, REPORT, failed(attempt=FIRST))
        await at.catch_up()
        late = at.retention(later=timedelta(days=31), archive=Meanwhile(at, happens))
        had = await Histories(at.raw.connection).messages(REPORT)
        late._histories = LaggingReplica(at.raw.connection, had)
        with pytest.raises(NotConfirmed, match=f"a read of {REPORT.job_id}"):
            await late.sweep()
        assert await at.readers.rows("SELECT state FROM jobs_projection") == [("pending",)]


async def test_what_is_left_and_not_yet_taken_in_is_taken_in_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Of what came between the archive and the purge, the projection knows one event of two."""

    async def happens(job: Job, history: list[Entry]) -> None:
        await retried(at.raw, job, history)
        await at.catch_up()
        latest = await at.raw.events.latest(REPORT)
        assert latest is not None
        cancelled = e.Cancelled(job=REPORT, context=job.context, at=utc_now(), tries=0, by="ann")
        assert isinstance(await at.raw.events.try_append(latest.head, cancelled), Head)

    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw, REPORT, failed(attempt=FIRST))
        await at.catch_up()
        late = at.retention(later=timedelta(days=31), archive=Meanwhile(at, happens))
        await late.sweep()
        assert await at.readers.rows("SELECT state FROM jobs_projection") == [("pending",)]
        await at.catch_up()
        assert await at.readers.rows("SELECT state FROM jobs_projection") == [("cancelled",)]
        assert await at.readers.rows("SELECT * FROM ignored_events") == []
        assert await at.is_as_rebuilt()


async def test_of_a_job_that_left_nothing_but_what_does_not_count_no_row_is_left(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async def happens(job: Job, history: list[Entry]) -> None:
        late = replace(completed(attempt=SECOND), at=utc_now())
        data = wire.encode(late, job.status, job.state)
        await at.raw.connection.request(subjects.lifecycle(REPORT, late.kind), data)
        await at.catch_up()

    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw)
        await at.catch_up()
        late = at.retention(later=timedelta(days=31), archive=Meanwhile(at, happens))
        assert (await late.sweep()).removed == {"completed": 1}
        assert await at.readers.rows("SELECT id FROM jobs_projection") == []
        assert await at.readers.rows("SELECT kind FROM ignored_events") == [("completed",)]
        assert await at.is_as_rebuilt()


async def test_of_a_job_that_another_replica_purged_what_went_on_is_left(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async def happens(job: Job, history: list[Entry]) -> None:
        await retried(one.raw, job, history)

    async with (
        sweeper(server.url, tmp_path / "a") as one,
        sweeper(server.url, tmp_path / "b") as two,
    ):
        await write_two_hours_behind(one.raw, REPORT, failed(attempt=FIRST))
        await one.catch_up()
        await two.catch_up()
        late = timedelta(days=31)
        await one.retention(later=late, archive=Meanwhile(one, happens)).sweep()
        assert (await two.retention(later=late).sweep()).removed == {}
        await two.catch_up()
        assert await two.readers.rows("SELECT state FROM jobs_projection") == [("pending",)]
        assert await two.is_as_rebuilt()


async def test_what_is_no_event_is_purged_with_its_job(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """And so are the rows about it; those about other jobs, and what came later, are not."""
    alike = replace(REPORT, job_id=f"{REPORT.job_id}-2")

    async def say_rubbish(address: JobAddress) -> None:
        subject = subjects.lifecycle(address, e.EventKind.STARTED)
        await at.raw.connection.request(subject, b"rubbish")
        await at.catch_up()

    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw)
        await say_rubbish(REPORT)
        await say_rubbish(alike)

        async def happens(job: Job, history: list[Entry]) -> None:
            await say_rubbish(REPORT)

        late = timedelta(days=31)
        await at.retention(later=late, archive=Meanwhile(at, happens)).sweep()
        of_both = "SELECT sequence, subject FROM undecodable_messages ORDER BY sequence"
        [(_, other), (later, _)] = await at.readers.rows(of_both)
        assert other == subjects.lifecycle(alike, e.EventKind.STARTED)
        assert await at.is_as_rebuilt()
        await purge_job(at.raw.connection, REPORT, up_to=later)
        assert not await has_events(at.raw.connection, REPORT)


async def retried(raw: Probe, job: Job, history: list[Entry]) -> None:
    event = e.Retried(
        job=job.address,
        context=job.context,
        at=utc_now(),
        tries=0,
        payload=job.payload,
        max_tries=job.max_tries,
    )
    head = await raw.events.try_append(Head(history[-1].sequence, job.status), event)
    assert isinstance(head, Head)


async def test_a_worker_whose_clock_is_behind_loses_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its job ended a moment ago, whatever its events say; the server knows when it stored them."""
    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw)
        await at.catch_up()
        policy = "completed=1h"
        now = at.retention(later=timedelta(), policy=policy)
        assert (await at.due(timedelta(), policy), (await now.sweep()).removed) == ({}, {})
        assert len(await at.raw.events.history(REPORT)) == 3
        later = at.retention(later=HOUR, policy=policy)
        assert await at.due(HOUR, policy) == {"completed": 1}
        assert (await later.sweep()).removed == {"completed": 1}
        assert await at.raw.events.history(REPORT) == []


async def test_the_log_decides_how_old_a_job_is(server: EmbeddedServer, tmp_path: Path) -> None:
    """The projection only proposes: here it believes that the job was stored a day ago."""
    async with sweeper(server.url, tmp_path) as at:
        await write_two_hours_behind(at.raw)
        await at.catch_up()
        at.store_earlier(timedelta(days=1))
        now = at.retention(later=timedelta(), policy="completed=1h")
        assert await at.due(timedelta(), "completed=1h") == {"completed": 1}
        assert (await now.sweep()).removed == {}
        assert len(await at.raw.events.history(REPORT)) == 3


async def write_two_hours_behind(
    raw: Probe, job: JobAddress = REPORT, end: e.Event | None = None
) -> None:
    head: Head | None = None
    for event in of(job, created(), started(), end or completed()):
        answer = await raw.events.try_append(head, replace(event, at=utc_now() - 2 * HOUR))
        assert isinstance(answer, Head)
        head = answer


async def test_a_portion_leaves_the_projection_at_once_but_for_what_went_on(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Archived, then purged, then forgotten: of thirty jobs one is retried before its purge."""
    steps: list[tuple[str, int]] = []

    class OneIsRetried(FolderArchive):
        async def keep(self, histories: Any, day: Any) -> None:
            await super().keep(histories, day)
            steps.append(("archived", len(histories)))
            [(job, history)] = [each for each in histories if each[0].address == jobs[7]]
            await retried(at.raw, job, history)
            await at.catch_up()

    async def do(self: Projection, work: Any, *args: Any, **options: Any) -> Any:
        if work is Writer.forget:
            histories = [await at.raw.events.history(row.job.address) for row in args[0]]
            steps.append(("forgotten, and purged before", histories.count([])))
        return await really_do(self, work, *args, **options)

    really_do = Projection.do
    monkeypatch.setattr(Projection, "do", do)
    jobs = [replace(REPORT, job_id=f"job-{number}") for number in range(30)]
    async with sweeper(server.url, tmp_path) as at:
        for job in jobs:
            await write_two_hours_behind(at.raw, job, failed(attempt=FIRST))
        await at.catch_up()
        late = at.retention(later=timedelta(days=31), archive=OneIsRetried(at.folder))
        assert (await late.sweep()).removed == {"failed": 29}
        assert steps == [("archived", 30), ("forgotten, and purged before", 29)]
        rows = await at.readers.rows("SELECT id, state FROM jobs_projection")
        counts = await at.readers.rows("SELECT state, jobs FROM job_counts")
        assert (rows, counts) == ([("job-7", "pending")], [("pending", 1)])


async def test_a_sweep_of_many_jobs_tells_again_and_again_that_it_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    told: list[int] = []
    async with producer(server.url) as jobs, sweeper(server.url, tmp_path) as at:
        refs = await jobs.work.create_many([Task()] * 120)
        await asyncio.gather(*(ref.cancel() for ref in refs))
        await at.catch_up()
        sweep = at.retention(later=timedelta(days=8), report_progress=lambda: told.append(1)).sweep
        assert (await sweep()).removed == {"cancelled": 120}
    assert len(told) == 2


async def test_a_removed_job_is_still_counted_in_the_past(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """And a projection that counts it is as the log says: only the log has forgotten it."""
    async with worker(server.url) as bench, sweeper(server.url, tmp_path) as at:
        await ended(await bench.jobs.work.create(Task(text="done")))
        await at.catch_up()
        week = timedelta(days=8)
        assert (await at.retention(later=week).sweep()).removed == {"completed": 1}
        now = utc_now() + week + timedelta(minutes=2)
        counted = [
            (await stats_at(at.readers, now - ago, now=now)).states
            for ago in (timedelta(), timedelta(days=1), week, week + timedelta(hours=1))
        ]
        path = tmp_path / "jobs.sqlite"
        assert (await verify(path, LogFeed(at.raw.connection), now)).is_equal
    assert counted == [{}, {"completed": 1}, {"completed": 1}, {}]


async def test_jobs_that_are_due_are_found_by_an_index(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with sweeper(server.url, tmp_path) as at:
        await at.catch_up()
        for query, values in ((DUE, ("dead", 0, 0, 0, 1)), (COUNT_ENDED, ("dead", 0))):
            steps = await at.readers.rows(f"EXPLAIN QUERY PLAN {query}", values)
            assert "jobs_by_move (state=? AND moved_at" in steps[0][-1]


async def test_what_another_replica_purged_leaves_this_projection_too(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        sweeper(server.url, tmp_path / "a") as one,
        sweeper(server.url, tmp_path / "b") as two,
    ):
        async with worker(server.url, "work") as bench:
            ref = await ended(await bench.jobs.work.create(Task()))
        await one.catch_up()
        await two.catch_up()
        await one.retention(later=timedelta(days=8)).sweep()
        assert await two.is_listed(ref)
        await two.retention(later=timedelta(days=8), archive=NoArchive()).sweep()
        assert not await two.is_listed(ref)
        assert len(one.archived()) == 1


async def test_a_crash_after_the_archive_is_made_good_by_the_next_sweep(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    class Crash(FolderArchive):
        async def keep(self, histories: Any, day: Any) -> None:
            await super().keep(histories, day)
            raise OSError("the power went")

    async with sweeper(server.url, tmp_path) as at:
        async with worker(server.url, "work") as bench:
            ref = await ended(await bench.jobs.work.create(Task()))
        await at.catch_up()
        with pytest.raises(OSError, match="power"):
            await at.retention(later=timedelta(days=8), archive=Crash(at.folder)).sweep()
        assert await at.raw.kinds(ref) != []
        await at.retention(later=timedelta(days=8)).sweep()
        assert await at.raw.kinds(ref) == []
        assert {line["job"]["id"] for line in at.archived()} == {ref.id}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pending=7d", "is not an end state"),
        ("completed=soon", "use a number"),
        ("completed=1d,completed=2d", "'completed' is set twice"),
        ("others=1d,completed=2d,others=3d", "'others' is set twice"),
        ("completed=59m", "the minimum is one hour"),
        ("completed", "use a number"),
        ("completed=99999999999999d", "more than a hundred years"),
        ("completed=999999999d", "more than a hundred years"),
        (f"completed={'9' * 5_000}d", "more than a hundred years"),
    ],
)
def test_a_retention_that_makes_no_sense_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse(text)


def test_what_is_not_named_keeps_its_age() -> None:
    policy, now = parse("completed=2h, others=3d"), datetime.fromisoformat("2026-11-16T12:00Z")
    assert policy.ages[JobState.COMPLETED] == timedelta(hours=2)
    assert policy.ages[JobState.DEAD] == timedelta(days=3)
    assert policy.is_due(JobState.COMPLETED, now - timedelta(hours=2), now)
    assert not policy.is_due(JobState.DEAD, now - timedelta(days=2), now)
    assert standard().ages[JobState.DEAD] == timedelta(days=90)


def test_keep_all_keeps_all() -> None:
    policy = parse("keep-all")
    assert str(policy) == "keep-all"
    assert policy.limits(utc_now()) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "dead=90d,failed=30d,others=7d"),
        ("completed=keep", "completed=keep,dead=90d,failed=30d,others=7d"),
        ("others=keep, dead=1w", "dead=7d,others=keep"),
        ("others=36h,failed=90m,dead=3601s", "dead=3601s,failed=90m,others=36h"),
        ("others=3d", "others=3d"),
    ],
)
def test_a_policy_is_shown_as_it_may_be_written(text: str, shown: str) -> None:
    assert str(parse(text)) == shown
    assert parse(shown) == parse(text)


def test_a_policy_of_different_ages_is_shown_state_by_state() -> None:
    hours = enumerate(sorted(OVER), start=1)
    policy = parse(",".join(f"{state}={number}h" for number, state in hours))
    assert "others" not in str(policy)
    assert parse(str(policy)) == policy


def test_the_longest_age_can_be_reckoned_with() -> None:
    assert parse("others=36500d").limits(utc_now())
