"""Stories of the admin runtime: it projects, looks after jobs, takes orders, and forgets."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from sqlite3 import DatabaseError
from typing import Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid, NotFound, Unexpected
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.operations import OperationVerb, OperationView
from jobs_admin.daemon import serving
from tests.admin.projection_lab import position_of
from tests.admin.upkeep_lab import forget_heartbeats, purge
from tests.crash_points import parts
from tests.crash_points.mill import mill
from tests.crash_points.points import Side
from tests.crash_points.stage import TIMEOUT, People, Stage, VictimDied, people
from tests.crash_points.tripwire import Trap
from tests.crash_points.work_scenarios import is_at_work, says
from tests.keys.work_lab import KeyView
from tests.support.example_service import Report, Task, TaskJobs
from tests.support.facts import DEADLINE, until
from trellis_jobs import JobRef, Service, Workers
from trellis_jobs.contract.topology import ADVISORIES, LOG, WORK, Topology, alarms_stream
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import ServiceMissing
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects

RUBBISH: Final = b"no database" * 1000
HALF_RECOVERED: Final = Trap(
    "jobs_admin.maintenance.dead_workers:DeadWorkers._replace_message:self.work.delete", Side.BEFORE
)


async def projecting(stage: Stage) -> None:
    """What is there, what comes, and all of it again when the file is gone, or damaged."""
    file = stage.folder / parts.FILE
    async with people(stage) as p:
        ref = await p.create(p.jobs.plain)
        file.write_bytes(RUBBISH)
        await stage.begin(parts.serve)
        async with mill(stage.folder, calm=True).connect(stage.url, connect_timeout=DEADLINE):
            await p.create(p.jobs.keyed)
            await p.until_over(ref)
        await projected(p)
        file.unlink()
        await p.create(p.jobs.plain)
        await projected(p)
        file.write_bytes(RUBBISH)
        await p.create(p.jobs.plain)
        await projected(p)
        await stage.end()


async def starting_again(stage: Stage) -> None:
    """The log is lost, and another begins."""
    async with people(stage) as p:
        await p.jobs.plain.create(Task())
        await stage.begin(parts.serve_as_provisioned)
        await projected(p)
        for stream in (WORK, LOG):
            await api.request(p.raw.connection, f"STREAM.DELETE.{stream}")
        await provision(p.raw.connection, Topology(p.raw.features))
        await p.create(p.jobs.plain)
        await stage.until(
            partial(says, stage, "rebuilt the projection", 2), "the projection is rebuilt"
        )
        await projected(p)
        await stage.end()


async def projected(p: People) -> None:
    """All that is in the log now is in the file."""
    end = (await LogFeed(p.raw.connection).extent()).last_sequence
    file = p.stage.folder / parts.FILE

    def is_there() -> bool:
        try:
            return position_of(file) >= end
        except DatabaseError:
            return False

    await p.stage.until(is_there, f"the projection is at {end}")


async def looking_after(stage: Stage) -> None:
    """Deadlines, deliveries that are used up, work that is lost, and what is left in keys."""
    async with people(stage) as p:
        jobs = p.jobs
        lost = [await p.create(jobs.plain, "wait"), await p.create(jobs.single, "wait")]
        given_up = await p.create(jobs.limited, "wait")
        await p.lose_a_worker(*lost, given_up)
        late = [await p.create(queue, deadline=0.3) for queue in (jobs.plain, jobs.strict)]
        lost.append(await p.create(jobs.plain))
        for ref in lost:
            await purge(p.raw, WORK, subjects.work(ref.address))
        key = await p.reserve(jobs.merging, "never", age=300)
        await forget_heartbeats(p.raw)
        async with pulling(stage):
            await stage.begin(parts.serve)
            await p.until_over(*late, given_up, lost[1])
        for ref in (lost[0], lost[2]):
            await stage.until(partial(is_at_work, p, ref), f"{ref} is put back")
        await stage.until(partial(is_free, key), "the reservation is forgotten")
        await stage.end()


async def recovering(stage: Stage) -> None:
    """Jobs of two dead workers: another admin runtime left the first one's half recovered. The
    second has a job at its last try, and one that was delivered to it and never started.
    """
    async with people(stage) as p:
        refs = [await p.create(p.jobs.lasting, "wait") for _ in range(2)]
        with stage.another(parts.hold_for_long) as first:
            await p.until_started(*refs)
            first.kill()
        with stage.another(parts.serve, HALF_RECOVERED) as other:
            await stage.until(lambda: other.is_dead, "the other admin runtime is dead")
        await stage.begin(parts.serve)
        last = await p.create(p.jobs.final, "wait")
        with stage.another(parts.hold_for_long) as second:
            await p.until_started(last)
            second.send(signal.SIGSTOP)
            refs.append(await p.create(p.jobs.lasting))
            await p.until_all_are_out(p.jobs.lasting)
            second.kill()
        await p.until_over(last)
        async with mill(stage.folder, calm=True).connect(
            stage.url, workers=Workers(["lasting"]), connect_timeout=DEADLINE
        ):
            await p.until_over(*refs)
        await stage.until(partial(are_recovered, p, 2), "the records say that all is done")
        await stage.end()


async def are_recovered(p: People, count: int) -> bool:
    records = WorkerRecords(p.raw.connection, supports_ttl=True)
    verdicts = [stored.record.verdict for stored in await records.all("mill")]
    recovered = [verdict for verdict in verdicts if verdict is not None and verdict.is_recovered]
    return len(recovered) == count


async def unheard(stage: Stage) -> None:
    """The server gave a message up, and what it said of that is lost."""
    async with people(stage) as p:
        given_up = [await p.create(p.jobs.limited, "wait") for _ in range(2)]
        await p.lose_a_worker(*given_up)
        async with pulling(stage):
            await stage.until(partial(are_given_up, p, len(given_up)), "the server gives up")
            await purge(p.raw, ADVISORIES)
            await forget_heartbeats(p.raw)
            await stage.begin(parts.serve)
            await p.until_over(*given_up)
        await stage.end()


async def ordering(stage: Stage) -> None:
    """Operators cancel, retry, dismiss, and free a key."""
    async with people(stage) as p:
        jobs = p.jobs
        held = await p.create(jobs.keyed, "wait")
        await p.lose_a_worker(held)
        workers = Workers(["plain", "single", "newest"])
        async with mill(stage.folder).connect(stage.url, workers=workers, connect_timeout=DEADLINE):
            failed = [await p.create(queue, "give up") for queue in (jobs.plain, jobs.newest)]
            dead = [await p.create(jobs.single, "always fail") for _ in range(2)]
            await p.until_over(*failed, *dead)
        pending = [await p.create(queue) for queue in (jobs.plain, jobs.strict, jobs.newest)]
        for _ in range(3):
            await p.create(jobs.single)
        await stage.begin(parts.serve)
        await projected(p)
        async with orders(stage) as admin:
            await stage.until(partial(is_filled, admin), "the projection is made")
            await change_all(admin, pending, failed, dead)
            await look_around(admin, held)
            await stage.until(partial(is_released, admin, held), "its lease is over")
            await change_many(stage, admin)
        await stage.end()


async def moving(stage: Stage) -> None:
    """Operators move and release jobs that wait, one by one and many, and alarms are lost.

    No job is moved far ahead, because all of them end if the admin runtime dies meanwhile.
    """
    async with people(stage) as p:
        jobs = p.jobs
        waiting = [await p.create(queue) for queue in (jobs.plain, jobs.keyed, jobs.strict)]
        delayed = [await p.create(jobs.plain, delay=3) for _ in range(4)]
        await stage.begin(parts.serve)
        await projected(p)
        async with orders(stage) as admin:
            await stage.until(partial(is_filled, admin), "the projection is made")
            for ref in waiting:
                await admin.reschedule(ref.id, utc_now() + timedelta(seconds=2))
            await admin.run_now(delayed[0].id)
            await admin.cancel(delayed[1].id)
            for verb, run_at in (
                (OperationVerb.RESCHEDULE, utc_now() + timedelta(seconds=2)),
                (OperationVerb.RUN_NOW, None),
            ):
                operation = await admin.operate(verb, JobFilter(type="plain"), run_at=run_at)
                await stage.until(partial(is_over, admin, operation), "the operation is over")
        await purge(p.raw, alarms_stream("mill"))
        left = [*waiting, delayed[0], *delayed[2:]]
        await stage.until(partial(have_alarms, p, len(left)), "lost alarms are published again")
        async with mill(stage.folder, calm=True).connect(stage.url, connect_timeout=DEADLINE):
            await p.until_over(*left)
        await stage.end()


async def have_alarms(p: People, count: int) -> bool:
    info = await api.request(p.raw.connection, f"STREAM.INFO.{alarms_stream('mill')}")
    return int(info["state"]["messages"]) >= count


Refs = Sequence[JobRef[Report]]


async def change_all(admin: AdminClient, pending: Refs, failed: Refs, dead: Refs) -> None:
    for ref in pending[:2]:
        await admin.cancel(ref.id)
    for ref in failed:
        await admin.retry(ref.id)
    await admin.replay(dead[0].id)
    await admin.dismiss(dead[1].id)
    with suppress(Invalid):
        await admin.cancel(dead[1].id)


async def change_many(stage: Stage, admin: AdminClient) -> None:
    """One operation to its end, one that is stopped, and one that outlives its daemon."""
    some = JobFilter(type="plain")
    await admin.preview(OperationVerb.CANCEL, some)
    operation = await admin.operate(OperationVerb.CANCEL, some, reason="not needed")
    await stage.until(partial(is_over, admin, operation), "the operation is over")
    other = await admin.operate(OperationVerb.CANCEL, JobFilter(type="newest"), rate=0.5)
    await stage.until(partial(has_begun, admin, other), "it has begun")
    for _ in range(2):
        with suppress(Invalid):  # it is over
            await admin.stop_operation(other.id)
        await stage.until(partial(is_over, admin, other), "it is stopped")
    await admin.list_operations()
    last = await admin.operate(OperationVerb.CANCEL, JobFilter(type="single"), rate=0.5)
    await stage.until(partial(has_begun, admin, last), "it has begun")


async def is_over(admin: AdminClient, operation: OperationView) -> bool:
    return (await admin.get_operation(operation.id)).is_over


async def has_begun(admin: AdminClient, operation: OperationView) -> bool:
    now = await admin.get_operation(operation.id)
    return now.is_over or now.settled > 0


async def look_around(admin: AdminClient, held: JobRef[Report]) -> None:
    await admin.list_dead()
    await admin.group_dead()
    await admin.list_jobs()
    await admin.get(held.id)
    await admin.list_keys()
    await admin.get_key("mill", "keyed", "yard:acme")
    with suppress(NotFound):
        await admin.get_key("mill", "keyed", "yard:unknown")


async def forgetting(stage: Stage) -> None:
    """Jobs that are over leave the log as soon as they can, and so does what is no event."""
    async with people(stage) as p:
        refs = [await p.create(queue) for queue in (p.jobs.plain, p.jobs.keyed)]
        async with mill(stage.folder, calm=True).connect(stage.url, connect_timeout=DEADLINE):
            await p.until_over(*refs)
            async with serving(parts.config(stage.url, stage.folder)):
                await projected(p)
            for junk in parts.JUNK:
                await p.raw.connection.request(junk, b"no event", timeout=TIMEOUT)
        await stage.begin(parts.serve_and_forget)
        await stage.until(partial(is_rid_of_junk, p), "what is no event has left both streams")
        for ref in refs:
            await stage.until(partial(has_left, p, ref), f"{ref} has left the log")
        await stage.until(partial(says, stage, "retention removed jobs"), "a sweep is over")
        # The streams are rid of it before the projection is.
        junk_is_forgotten = partial(says, stage, "messages that are neither events nor work")
        await stage.until(junk_is_forgotten, "the projection has forgotten what is no event")
        await stage.end()


async def is_rid_of_junk(p: People) -> bool:
    connection = p.raw.connection
    left = [await stored_message.newest(connection, LOG, subject) for subject in parts.JUNK]
    work = await stored_message.newest(connection, WORK, subjects.RESERVED_WORK)
    return not any([*left, work])


def pulling(stage: Stage) -> AbstractAsyncContextManager[Service[TaskJobs]]:
    """A server gives a message up only when a worker requests the next one."""
    return mill(stage.folder, calm=True).connect(
        stage.url, workers=Workers(["limited"]), connect_timeout=DEADLINE
    )


@asynccontextmanager
async def orders(stage: Stage) -> AsyncIterator[AdminClient]:
    """An operator whose daemon dies meanwhile gets no answer, and need not wait for one."""

    async def end_with_the_victim(orders: asyncio.Timeout) -> None:
        await until(lambda: stage.victim is None or stage.victim.is_dead, deadline=TIMEOUT)
        orders.reschedule(asyncio.get_running_loop().time())

    async with AdminClient.connect(stage.url, by="ann", timeout=TIMEOUT) as admin:
        try:
            async with asyncio.timeout(None) as orders:
                watching = asyncio.create_task(end_with_the_victim(orders))
                try:
                    yield admin
                finally:
                    watching.cancel()
        except (TimeoutError, ServiceMissing):
            await until(lambda: stage.victim is None or stage.victim.is_dead, "the victim is dead")
            raise VictimDied from None


async def is_released(admin: AdminClient, held: JobRef[Report]) -> bool:
    try:
        await admin.release_key("mill", "keyed", "yard:acme", held.id)
    except Invalid:
        return False
    return True


async def is_filled(admin: AdminClient) -> bool:
    try:
        await admin.list_jobs(limit=1)
    except Unexpected:  # it is still being made
        return False
    return True


async def is_free(key: KeyView) -> bool:
    return not (await key.read()).queued


async def are_given_up(p: People, count: int) -> bool:
    info = await api.request(p.raw.connection, f"STREAM.INFO.{ADVISORIES}")
    return int(info["state"]["messages"]) >= count


async def has_left(p: People, ref: JobRef[Report]) -> bool:
    return await p.raw.events.head(ref.address) is None
