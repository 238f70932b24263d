"""Changes of many jobs, carried out by the daemons.

One request for each job made 167 jobs a second, and ended with the process that sent them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid, NotFound, Unexpected
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.health import Mode
from jobs_admin.api.views.jobs import JobCursor
from jobs_admin.api.views.operations import OperationFilter, OperationState, OperationVerb
from jobs_admin.operations import operation as moves
from jobs_admin.operations.operation import OperationRequest, Progress
from jobs_admin.operations.records import OperationRecords
from tests.admin.admin_lab import AdminLab, daemon_at, until_projected
from tests.admin.operations_lab import (
    changes_of,
    death,
    die,
    numbered,
    times_changed,
    until_done,
    until_over,
    write,
)
from tests.admin.projection_lab import admin_process
from tests.given import NOON, after, created, dismissed, retried, started
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs.contract.topology import CONTROL
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import ServiceMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.control.records import ControlRecords
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Cancelled, EventKind, Retried
from trellis_jobs.model.states import JobState

REPLAY = OperationVerb.REPLAY
SOON = timedelta(seconds=2)


@asynccontextmanager
async def dead_jobs(lab: AdminLab, count: int) -> AsyncIterator[Probe]:
    """As many, in the log and in the projection."""
    async with probe(lab.url) as raw:
        await die(raw, count)
        await until_projected(lab.daemon, 3 * count)
        yield raw


async def until_projected_at(client: AdminClient, sequence: int) -> None:
    """By a daemon in another process, once it answers."""

    async def there() -> bool:
        try:
            await client.list_jobs(limit=1, min_seq=sequence)
        except (ServiceMissing, Unexpected):
            return False
        return True

    await until(there, "the daemon answers")


async def test_every_job_that_matches_is_changed_once_and_its_event_names_the_operation(
    lab: AdminLab,
) -> None:
    async with dead_jobs(lab, 30) as raw:
        await die(raw, 1, first=90, queue="slow")
        await until_projected(lab.daemon, 93)
        query = JobFilter(type="work")
        started_now = await lab.client.operate(REPLAY, query, reason="the bank is back")
        assert (started_now.state, started_now.total) == (OperationState.RUNNING, 30)
        over = await until_over(lab.client, started_now)
        assert (over.state, over.done, over.refused) == (OperationState.DONE, 30, {})
        assert (over.by, over.reason, over.owner) == ("ann", "the bank is back", None)
        jobs = [numbered(number) for number in range(30)]
        changed = await changes_of(raw, jobs, EventKind.RETRIED)
        for events in changed.values():
            [event] = events
            assert isinstance(event, Retried)
            assert (event.by, event.reason) == ("ann", "the bank is back")
            assert event.request == over.id
        assert await times_changed(raw, [numbered(90, "slow")]) == {0: 1}
        [listed] = (await lab.client.list_operations()).entries
        assert listed == over


@pytest.mark.parametrize(
    ("verb", "kind", "state"),
    [
        (OperationVerb.RETRY, EventKind.RETRIED, JobState.PENDING),
        (OperationVerb.DISMISS, EventKind.DISMISSED, JobState.DISMISSED),
    ],
)
async def test_dead_jobs_are_retried_or_dismissed(
    lab: AdminLab, verb: OperationVerb, kind: EventKind, state: JobState
) -> None:
    async with dead_jobs(lab, 3) as raw:
        over = await until_over(lab.client, await lab.client.operate(verb))
        assert over.done == 3
        jobs = [numbered(number) for number in range(3)]
        assert await times_changed(raw, jobs, kind) == {1: 3}
        found = [await lab.client.get(job, min_seq=12) for job in jobs]
        assert {job.state for job in found} == {state}


async def test_jobs_that_are_not_over_are_cancelled(lab: AdminLab) -> None:
    async with probe(lab.url) as raw:
        waits, runs = numbered(1), numbered(2)
        await write(raw.events, created(job=waits))
        last = await write(raw.events, created(job=runs), started(job=runs))
        await until_projected(lab.daemon, last)
        over = await until_over(lab.client, await lab.client.operate(OperationVerb.CANCEL))
        assert (over.total, over.done) == (2, 2)
        changed = await changes_of(raw, [waits, runs], EventKind.CANCELLED)
        for [event] in changed.values():
            assert isinstance(event, Cancelled)


async def test_a_preview_tells_what_would_be_changed_and_refused_and_changes_nothing(
    lab: AdminLab,
) -> None:
    async with dead_jobs(lab, 4) as raw:
        last = await write(raw.events, created(job=numbered(7)))
        await until_projected(lab.daemon, last)
        preview = await lab.client.preview(REPLAY, JobFilter(service="lab"))
        assert preview.count == 4
        assert [(each.type, each.state, each.jobs) for each in preview.jobs] == [
            ("work", JobState.DEAD, 4)
        ]
        assert [(each.state, each.jobs) for each in preview.refused] == [(JobState.PENDING, 1)]
        assert (await lab.client.preview(REPLAY, JobFilter(error="503"))).count == 4
        assert (await lab.client.preview(REPLAY, JobFilter(error="nothing so"))).count == 0
        assert (await lab.client.preview(REPLAY, JobFilter(since=after(2)))).count == 2
        assert (await lab.client.list_operations()).count == 0
        assert await times_changed(raw, [numbered(n) for n in range(4)]) == {0: 4}


async def test_a_job_that_dies_after_the_start_is_left_alone(lab: AdminLab) -> None:
    async with dead_jobs(lab, 6) as raw:
        late, at = numbered(99), NOON - timedelta(hours=1)
        begun, running, died = death(late, at)
        head = await raw.events.try_append(None, begun)
        head = await raw.events.try_append(head, running)  # type: ignore[arg-type]
        await until_projected(lab.daemon, 20)
        operation = await lab.client.operate(REPLAY, rate=4)
        await raw.events.try_append(head, died)  # type: ignore[arg-type]
        over = await until_over(lab.client, operation)
        assert (over.total, over.done, over.refused) == (6, 6, {})
        assert await times_changed(raw, [late]) == {0: 1}
        assert (await lab.client.get(late, min_seq=21)).state is JobState.DEAD


async def test_an_operation_is_paced_and_stops_when_it_is_asked_to(lab: AdminLab) -> None:
    async with dead_jobs(lab, 60) as raw:
        begun = asyncio.get_running_loop().time()
        operation = await lab.client.operate(REPLAY, rate=5)
        await until_done(lab.client, operation, 4)
        assert asyncio.get_running_loop().time() - begun > 0.4
        stopping = await lab.client.stop_operation(operation.id)
        assert stopping.state is OperationState.STOPPING
        over = await until_over(lab.client, operation)
        assert (over.state, over.stopped_by) == (OperationState.STOPPED, "ann")
        assert 4 <= over.done < 60
        changed = await times_changed(raw, [numbered(n) for n in range(60)])
        assert changed == {1: over.done, 0: 60 - over.done}
        with pytest.raises(Invalid, match="is already stopped"):
            await lab.client.stop_operation(operation.id)


async def test_secrets_are_replayed_as_they_are_in_the_log(lab: AdminLab) -> None:
    """The projection does not have them."""
    async with probe(lab.url) as raw:
        job, paid = numbered(1), {"card": "4111-1111", "amount": 7}
        story = death(job, NOON, payload=paid, secrets=("/card",))
        await until_projected(lab.daemon, await write(raw.events, *story))
        over = await until_over(lab.client, await lab.client.operate(REPLAY))
        [[event]] = (await changes_of(raw, [job], EventKind.RETRIED)).values()
        assert isinstance(event, Retried)
        assert (over.done, event.payload, event.secrets) == (1, paid, ("/card",))


async def test_a_state_that_does_not_allow_the_change_is_refused_at_once(lab: AdminLab) -> None:
    with pytest.raises(Invalid, match="only dead jobs can be replayed, not failed ones"):
        await lab.client.operate(REPLAY, JobFilter(state=[JobState.FAILED]))
    with pytest.raises(NotFound, match="there is no operation nonsense"):
        await lab.client.get_operation("nonsense")


async def test_without_its_stream_everything_else_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """As in an installation from before there were operations."""
    async with probe(server.url) as raw, daemon_at(server.url, tmp_path / "a", provision=True):
        await api.request(raw.connection, f"STREAM.DELETE.{CONTROL}")
    async with (
        probe(server.url) as raw,
        daemon_at(server.url, tmp_path / "b") as daemon,
        AdminClient.connect(server.url) as client,
    ):
        await die(raw, 1)
        await until_projected(daemon, 3)
        assert (await client.group_dead()).jobs == 1
        assert (await client.preview(REPLAY)).count == 1
        with pytest.raises(Unexpected, match="JOBS_CONTROL is missing: run `trellis-jobs infra"):
            await client.operate(REPLAY)
        assert (await client.replay(numbered(0))).job.state is JobState.PENDING


async def test_another_daemon_goes_on_after_kill_9_and_each_job_is_changed_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    jobs = [numbered(number) for number in range(300)]
    async with probe(server.url) as raw, AdminClient.connect(server.url, by="ann") as client:
        async with daemon_at(server.url, tmp_path / "b", provision=True) as daemon:
            await die(raw, len(jobs))
            await until_projected(daemon, 3 * len(jobs))
        with admin_process(server.url, tmp_path / "a") as victim:
            await until_projected_at(client, 3 * len(jobs))
            operation = await client.operate(REPLAY, rate=100, reason="kill me")
            await until_done(client, operation, 50)
            victim.kill()
        async with daemon_at(server.url, tmp_path / "b", operation_lease=SOON):
            at_the_kill = (await client.get_operation(operation.id)).done
            over = await until_over(client, operation)
        assert at_the_kill < len(jobs)
        assert (over.state, over.done, over.refused) == (OperationState.DONE, len(jobs), {})
        assert await times_changed(raw, jobs) == {1: len(jobs)}


async def test_a_daemon_that_ends_hands_its_operation_over_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Two replicas: the other one does not wait for the lease."""
    hour = timedelta(hours=1)
    jobs = [numbered(number) for number in range(60)]
    async with (
        probe(server.url) as raw,
        AdminClient.connect(server.url, by="ann") as client,
    ):
        async with daemon_at(
            server.url, tmp_path / "a", provision=True, operation_lease=hour
        ) as first:
            await die(raw, len(jobs))
            await until_projected(first, 3 * len(jobs))
            operation = await client.operate(REPLAY, rate=20)
            await until_done(client, operation, 5)
            replica = daemon_at(server.url, tmp_path / "b", operation_lease=hour)
            second = await replica.__aenter__()
            await until_projected(second, 3 * len(jobs))
        try:
            over = await until_over(client, operation)
        finally:
            await replica.__aexit__(None, None, None)
        assert (over.state, over.done) == (OperationState.DONE, len(jobs))
        assert await times_changed(raw, jobs) == {1: len(jobs)}


async def test_a_daemon_that_runs_an_operation_stops_without_a_server(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """SIGTERM during an outage: it waited for the server, to say that it leaves the operation."""
    async with AdminClient.connect(server.url, by="ann") as client:
        async with probe(server.url) as raw:
            running = daemon_at(server.url, tmp_path / "a", provision=True)
            daemon = await running.__aenter__()
            await die(raw, 60)
            await until_projected(daemon, 180)
            operation = await client.operate(REPLAY, rate=30)
            await until_done(client, operation, 3)
        server.kill()
        async with asyncio.timeout(15):
            await running.__aexit__(None, None, None)
        server.restart()
        async with daemon_at(server.url, tmp_path / "a", operation_lease=SOON):
            assert (await until_over(client, operation)).done == 60


async def test_a_daemon_that_only_answers_leaves_the_work_to_another(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        probe(server.url) as raw,
        daemon_at(server.url, tmp_path / "a", provision=True) as full,
    ):
        await die(raw, 3)
        await until_projected(full, 9)
    async with (
        daemon_at(server.url, tmp_path / "a", mode=Mode.RPC_ONLY),
        AdminClient.connect(server.url) as client,
        probe(server.url) as raw,
    ):
        operation = await client.operate(REPLAY)
        assert (await client.get_operation(operation.id)).owner is None
        stopped = await client.stop_operation(operation.id)
        assert (stopped.state, stopped.done) == (OperationState.STOPPED, 0)
        second = await client.operate(REPLAY)
    async with daemon_at(server.url, tmp_path / "a"), AdminClient.connect(server.url) as client:
        assert (await until_over(client, second)).done == 3
        assert (await client.get_operation(operation.id)).done == 0


async def test_an_unreadable_record_stops_no_daemon(lab: AdminLab) -> None:
    async with dead_jobs(lab, 1):
        for name, data in (("bad", b"\xff"), ("odd", b'{"id": "odd"}')):
            await lab.stranger.connection.request(subjects.operation(name), data)
        over = await until_over(lab.client, await lab.client.operate(REPLAY))
        assert over.done == 1
        assert [each.id for each in (await lab.client.list_operations()).entries] == [over.id]
        with pytest.raises(NotFound):
            await lab.client.get_operation("bad")


async def test_a_daemon_forgets_operations_whose_records_have_expired(lab: AdminLab) -> None:
    """It remembered every operation that had ever ended, for as long as it ran."""
    async with dead_jobs(lab, 1) as raw:

        async def one_operation() -> str:
            return (await until_over(lab.client, await lab.client.operate(REPLAY))).id

        expired = await one_operation()
        await one_operation()  # The daemon has seen by now that the first one is over.
        records = {"filter": subjects.operation(expired)}
        await api.request(raw.connection, f"STREAM.PURGE.{CONTROL}", records)
        await one_operation()  # And that its record is gone.
        request = OperationRequest(
            verb=REPLAY, filter=OperationFilter(), by="ann", reason=None, rate=None, total=0
        )
        again = moves.start(expired, request, 1, NOON)
        await OperationRecords(ControlRecords(raw.connection, supports_ttl=True)).create(again)
        assert (await until_over(lab.client, again)).state is OperationState.DONE


async def test_what_was_taken_up_is_settled_once_and_what_moved_meanwhile_is_refused(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The daemon died after it took these up: one it had changed already, two moved by others."""
    jobs = [numbered(number) for number in range(4)]
    async with (
        probe(server.url) as raw,
        AdminClient.connect(server.url, by="ann") as client,
    ):
        async with daemon_at(server.url, tmp_path / "a", provision=True):
            await die(raw, len(jobs))
        request = OperationRequest(
            verb=REPLAY, filter=OperationFilter(), by="ann", reason=None, rate=None, total=4
        )
        numbers = tuple([(await raw.events.history(job))[0].sequence for job in jobs])
        place = JobCursor(created_at=NOON, first_seq=numbers[0])
        taken_up = Progress(cursor=place, page=numbers, done=0, refused={}, refusals=())
        operation = moves.advance(moves.start("op-1", request, 12, NOON), taken_up, NOON)
        await OperationRecords(ControlRecords(raw.connection, supports_ttl=True)).create(operation)
        for job, request_id in ((jobs[0], "op-1"), (jobs[1], "another")):
            head = await raw.events.head(job)
            await raw.events.try_append(head, retried(job=job, by="ann", request=request_id))
        head = await raw.events.head(jobs[2])
        await raw.events.try_append(head, dismissed(job=jobs[2]))
        async with daemon_at(server.url, tmp_path / "a"):
            over = await until_over(client, operation)
        assert over.done == 2
        assert over.refused == {"already pending": 1, "already dismissed": 1}
        assert {(each.id, each.reason) for each in over.refusals} == {
            (jobs[1].job_id, "already pending"),
            (jobs[2].job_id, "already dismissed"),
        }
        assert await times_changed(raw, jobs) == {1: 3, 0: 1}
