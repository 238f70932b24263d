"""Stories of producers and workers: each ends when its victim's work is done."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from tests import given
from tests.admin.upkeep_lab import purge
from tests.crash_points import parts
from tests.crash_points.mill import MILL, mill
from tests.crash_points.points import Side
from tests.crash_points.stage import People, Stage, people
from tests.crash_points.tripwire import Trap
from tests.keys.keyed_lab import EVENT_ANSWERED, KEY_WRITE_ANSWERED, Held, look_at
from tests.support.example_service import Report, Task
from tests.support.facts import DEADLINE
from tests.support.fault_proxy import Then, fault_proxy
from trellis_jobs import JobRef
from trellis_jobs.contract.topology import KEYS, LOG, WORK, Topology, queue_consumer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer
from trellis_jobs.jetstream.work.messages import WorkMessages
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.values import replace
from trellis_jobs.model.worker_record import Refusal, WorkerRecord, declare_dead, direct
from trellis_jobs.model.worker_states import WorkerState

QUEUE: Final = queue_consumer("mill", MILL.contract.queues["plain"])
BEFORE_STARTED: Final = Trap(
    "trellis_jobs.worker.claim:Claimer._start:self._slot_acquirer.acquire", Side.AFTER
)


async def creating(stage: Stage) -> None:
    """On a server that holds nothing yet."""
    await stage.begin(parts.create)


async def following(stage: Stage) -> None:
    async with mill(stage.folder).connect(stage.url, connect_timeout=DEADLINE):
        await stage.begin(parts.follow)


async def pressing_in(stage: Stage) -> None:
    """One of those that were never born is, in the end."""
    async with people(stage) as p:
        jobs = p.jobs
        held = await p.create(jobs.strict, "wait")
        await p.lose_a_worker(held)
        await purge(p.raw, WORK)
        await p.reserve(jobs.merging, "never", age=300)
        await p.reserve(jobs.newest, "born-late", "unborn")
        await leave_slot(p, await p.create(jobs.strict, key="over"))
        late = await given_birth(p, "born-late")
        try:
            await stage.begin(parts.press_in)
            await late
        finally:
            late.cancel()


async def replacing(stage: Stage) -> None:
    """The job to be replaced changes just then: the first is cancelled, the second starts."""
    async with fault_proxy(stage.url) as way, people(stage) as p:
        first, second = [await p.create(p.jobs.newest) for _ in range(2)]
        at_first = Held(way, KEY_WRITE_ANSWERED, look_at(first))

        async def move() -> None:
            await stage.until(lambda: at_first.is_still, "the first was looked at")
            await first.cancel()
            then = Held(way, KEY_WRITE_ANSWERED, look_at(second))
            way.thaw()
            await stage.until(lambda: then.is_still, "the second was looked at")
            await p.lose_a_worker(second)
            way.thaw()

        moving = asyncio.create_task(move())
        try:
            await stage.begin(parts.replace, way.url)
            await moving
        finally:
            moving.cancel()


async def replacing_without_batches(stage: Stage) -> None:
    """The new one first, and then who makes way."""
    async with people(stage) as p:
        for _ in range(2):
            await p.create(p.jobs.newest)
        await stage.begin(parts.replace)


async def being_cut_off(stage: Stage) -> None:
    """The answers to writes are lost, and the connection with them; and so are reads."""
    async with fault_proxy(stage.url) as way, people(stage):
        for lost in (EVENT_ANSWERED, KEY_WRITE_ANSWERED, EVENT_ANSWERED):
            way.when_server_sends(lost, lambda: Then.CUT)
        for asked in (rb"DIRECT\.GET\.JOBS\.", rb"DIRECT\.GET\.KV_JOBS_KEYS\."):
            way.when_client_sends(asked, lambda: Then.CUT)
        await stage.begin(parts.create_some, way.url)


async def creating_in_a_row(stage: Stage) -> None:
    """The first answers are lost, and the connection with them."""
    async with fault_proxy(stage.url) as way, people(stage):
        way.when_server_sends(EVENT_ANSWERED, lambda: Then.CUT)
        await stage.begin(parts.create_in_a_row, way.url)


async def working_cut_off(stage: Stage) -> None:
    async with fault_proxy(stage.url) as way, people(stage) as p:
        refs = [await p.create(queue, "nap") for queue in (p.jobs.plain, p.jobs.keyed)]
        await stage.begin(parts.work, way.url)
        for lost in (EVENT_ANSWERED, KEY_WRITE_ANSWERED):
            way.when_server_sends(lost, lambda: Then.CUT)
        refs += [await p.create(queue, "nap") for queue in (p.jobs.plain, p.jobs.keyed)]
        await p.until_over(*refs)
        await stage.end()


async def working(stage: Stage) -> None:
    async with people(stage) as p:
        jobs = p.jobs
        refs = [
            await p.create(jobs.plain),
            await p.create(jobs.plain, "fail once"),
            await p.create(jobs.plain, "give up"),
            await p.create(jobs.plain, "nap", seconds=0.7),
            await p.create(jobs.single, "always fail"),
            await p.create(jobs.threaded, seconds=0.1),
            await p.create(jobs.limited),
            await p.create(jobs.vast),
        ]
        purged = await jobs.plain.create(Task())
        await stage.until(partial(is_at_work, p, purged), "its work message is there")
        await purge(p.raw, LOG, subjects.history(purged.address))
        await p.raw.connection.publish(subjects.work(purged.address), b"rubbish")
        await ensure_consumer(p.raw.connection, {**QUEUE, "ack_wait": 700_000_000})
        hasty = await p.create(jobs.hasty, "nap", seconds=0.3)
        await stage.begin(parts.work)
        await p.until_over(*refs)
        await p.until_kind(hasty, EventKind.RETRY)
        await stage.end()


async def interrupting(stage: Stage) -> None:
    """Jobs are cancelled, deadlines pass, and the worker is paused and then stopped."""
    async with people(stage) as p:
        jobs = p.jobs
        late = await p.create(jobs.plain, deadline=0.01)
        waiting = [
            await p.create(jobs.plain, "wait"),
            await p.create(jobs.plain, "wait"),
            await p.create(jobs.plain, "wait", seconds=1),
            await p.create(jobs.keyed, "wait"),
        ]
        await p.create(jobs.keyed)
        await stage.begin(parts.work)
        await p.until_started(*waiting)
        await waiting[0].cancel()
        await put_another_message(p, waiting[1])
        await p.until_over(waiting[0], late)
        stage.signal(signal.SIGTSTP)
        await stage.until(lambda: says(stage, "worker is now quiet"), "the worker pauses")
        stage.signal(signal.SIGCONT)
        await p.until_over(await p.create(jobs.plain))
        await stage.end()


async def taking_over(stage: Stage) -> None:
    """From workers that died: in a handler, with a slot only, and with a message that is gone.

    One job is over before it is delivered at all.
    """
    async with people(stage) as p:
        jobs = p.jobs
        refs = [
            await p.create(jobs.plain, "nap", seconds=1.2),
            await p.create(jobs.single, "wait"),
            await p.create(jobs.keyed, "nap", seconds=1.2),
            await p.create(jobs.newest, "nap", seconds=1.2),
            await p.create(jobs.keyed, "nap", seconds=1.2, key="lost"),
        ]
        await p.lose_a_worker(*refs)
        await purge(p.raw, WORK, subjects.work(refs[-1].address))
        contested = await p.create(jobs.strict)
        with stage.another(parts.work_strictly, BEFORE_STARTED) as second:
            await stage.until(lambda: second.is_dead, "the second is dead")
        following = [
            *[await p.create(jobs.keyed, key=key) for key in ("acme", "lost")],
            await p.create(jobs.newest),
            await p.create(jobs.newest, "nap", seconds=1.5, key="other"),
            await p.create(jobs.keyed, key="cancelled"),
        ]
        await following[-1].cancel()
        await stage.begin(parts.work)
        # A victim that handed the last of them back and died did not end it: others do, later.
        await p.until_over(*refs[:-1], contested, *following)
        await stage.end()


async def lining_up(stage: Stage) -> None:
    """For one key: some run, some fail, and some end while they wait."""
    async with people(stage) as p:
        jobs = p.jobs
        await p.reserve(jobs.keyed, "never", key="haunted", age=30)
        first = await p.create(jobs.keyed, "wait")
        cancelled = await p.create(jobs.keyed)
        others = [
            await p.create(jobs.keyed, key="haunted"),
            await p.create(jobs.keyed, "fail once"),
            await p.create(jobs.keyed, "give up"),
            await p.create(jobs.newest),
            await p.create(jobs.newest),
            await p.create(jobs.newest),
        ]
        await stage.begin(parts.work)
        await p.until_started(first)
        late = await p.create(jobs.keyed, deadline=0.5)
        await p.until_over(await p.create(jobs.keyed, key="free"))
        await p.until_all_are_out(jobs.keyed)
        await cancelled.cancel()
        await p.until_over(cancelled, late)
        await first.cancel()
        await p.until_over(first, *others)
        await stage.end()


async def freezing(stage: Stage) -> None:
    """The worker stands still for longer than its leases: alone, and then while another works."""
    async with people(stage) as p:
        jobs = p.jobs
        refs = [
            await p.create(jobs.plain, "wait"),
            await p.create(jobs.keyed, "wait"),
            await p.create(jobs.plain, "block", seconds=1.0),
        ]
        await stage.begin(parts.work)
        await p.until_started(*refs)
        stage.signal(signal.SIGSTOP)
        async with mill(stage.folder, calm=True).connect(stage.url, connect_timeout=DEADLINE):
            await p.until_over(*refs)
        own = await p.create(jobs.plain, "wait")
        stage.signal(signal.SIGCONT)
        await p.until_started(own)
        stage.signal(signal.SIGSTOP)
        await p.until_redelivered(jobs.plain)
        stage.signal(signal.SIGCONT)
        await p.until_kind(own, EventKind.HEARTBEAT)
        await own.cancel()
        await p.until_over(own)
        await stage.end()


async def losing_the_keys(stage: Stage) -> None:
    """The bucket is gone when a job is claimed, and made again."""
    async with people(stage) as p:
        await stage.begin(parts.work)
        await p.until_over(await p.create(p.jobs.keyed))
        stage.signal(signal.SIGTSTP)
        await stage.until(lambda: says(stage, "worker is now quiet"), "the worker pauses")
        ref = await p.create(p.jobs.keyed)
        await api.request(p.raw.connection, f"STREAM.DELETE.{KEYS}")
        stage.signal(signal.SIGCONT)
        await stage.until(lambda: says(stage, "cannot read or change the"), "the worker notices")
        await provision(p.raw.connection, Topology(p.raw.features))
        await p.until_over(ref)
        await stage.end()


async def being_directed(stage: Stage) -> None:
    """An operator pauses and resumes the worker, and an admin runtime declares it dead."""
    async with people(stage) as p:
        records = WorkerRecords(p.raw.connection, supports_ttl=True)
        await stage.begin(parts.be_directed)
        running = await p.create(p.jobs.plain, "wait")
        await p.until_started(running)
        for state in (WorkerState.QUIET, WorkerState.RUNNING):
            await write(records, partial(direct, state=state, at=utc_now(), by=None, reason=None))
            await stage.until(partial(reports, records, state), f"the worker is {state}")
        await write(
            records, lambda r: declare_dead(r, by="an admin runtime", at=utc_now(), lost={})
        )
        await stage.until(lambda: says(stage, "was declared dead"), "the worker notices")
        await running.cancel()
        await p.until_over(running, await p.create(p.jobs.plain))
        await stage.end()


async def sharing_slots(stage: Stage) -> None:
    """Two slots for three queues: jobs wait for a slot, or for their key, or arrive without a slot.

    The worker is also paused, and loses its connection.
    """
    async with fault_proxy(stage.url) as way, people(stage) as p:
        jobs = p.jobs
        refs = [
            await p.create(jobs.single, "always fail"),
            *[await p.create(jobs.keyed, "nap") for _ in range(3)],
            await p.create(jobs.keyed, "fail once", key="other"),
            await p.create(jobs.plain, "give up"),
            await p.create(jobs.plain, "fail once"),
            await p.create(jobs.plain, "nap", seconds=0.7),
        ]
        await stage.begin(parts.share_slots, way.url)
        await p.until_over(*refs)
        holder = await p.create(jobs.keyed, "wait")
        await p.until_started(holder)
        following = [await p.create(jobs.keyed, "nap") for _ in range(2)]
        await p.until_all_are_out(jobs.keyed)
        # All queues are empty now, so one job of each arrives, for the one slot that is left.
        held = [await p.create(queue, "wait") for queue in (jobs.single, jobs.plain)]
        await stage.until(partial(is_any_started, p, held), "both slots are in use")
        for ref in (holder, *held):
            await ref.cancel()
        await p.until_over(holder, *held, *following)
        stage.signal(signal.SIGTSTP)
        await stage.until(lambda: says(stage, "worker is now quiet"), "the worker pauses")
        later = [await p.create(queue, "nap") for queue in (jobs.single, jobs.keyed, jobs.plain)]
        stage.signal(signal.SIGCONT)
        await p.until_started(later[-1])
        way.cut()
        await p.until_over(*later)
        await stage.end()


async def is_any_started(p: People, refs: Sequence[JobRef[Report]]) -> bool:
    return any([EventKind.STARTED in await p.raw.kinds(ref) for ref in refs])


async def write(
    records: WorkerRecords, move: Callable[[WorkerRecord], WorkerRecord | Refusal | None]
) -> None:
    for stored in await records.all("mill"):
        await records.change(stored, move)


async def reports(records: WorkerRecords, state: WorkerState) -> bool:
    return any(stored.record.state is state for stored in await records.all("mill"))


async def draining(stage: Stage) -> None:
    async with people(stage) as p:
        await p.create(p.jobs.plain)
        await stage.begin(parts.drain)


async def losing_the_queue(stage: Stage) -> None:
    """It is deleted under the worker, and made again."""
    async with people(stage) as p:
        await stage.begin(parts.work)
        await p.until_over(await p.create(p.jobs.plain))
        await api.request(p.raw.connection, f"STREAM.DELETE.{WORK}")
        ref = await p.create(p.jobs.plain)
        await stage.until(
            lambda: says(stage, "can run until its stream or consumer exists"), "the worker notices"
        )
        await provision(p.raw.connection, Topology(p.raw.features))
        await p.until_over(ref)
        await stage.end()


async def leave_slot(p: People, ref: JobRef[Report]) -> None:
    """The job has ended, and is in its key all the same."""
    await ref.cancel()
    now = utc_now()
    slot = given.slot(ref.id, heartbeat_at=now, expires_at=now + timedelta(seconds=0.5))
    await p.key(p.jobs.strict, "over").change(lambda state: replace(state, active=(slot,)))


def says(stage: Stage, words: str, times: int = 1) -> bool:
    return stage.victim is not None and stage.victim.output.count(words) >= times


async def is_at_work(p: People, ref: JobRef[Report]) -> bool:
    return await WorkMessages(p.raw.connection).exists(ref.address)


async def put_another_message(p: People, running: JobRef[Report]) -> None:
    """For a job that has one already, which is lost."""
    await purge(p.raw, WORK, subjects.work(running.address))
    first = (await p.raw.events.history(running.address))[0]
    await WorkMessages(p.raw.connection).put_back(running.address, first.sequence)


async def given_birth(p: People, job_id: str) -> asyncio.Task[None]:
    """`created` of a job that has its place, once another has taken it."""
    created = (await p.raw.events.history((await p.create(p.jobs.plain)).address))[0].event
    late = replace(created, job=p.jobs.newest.ref(job_id).address)
    key = p.key(p.jobs.newest)

    async def is_replaced() -> bool:
        return job_id not in [each.job_id for each in (await key.read()).queued]

    async def be_born() -> None:
        await p.stage.until(is_replaced, "its place is taken")
        await p.raw.events.try_append(None, late)

    return asyncio.create_task(be_born())
