"""Stories of delayed jobs: they are created, moved, and released when their time comes.

No alarm may be lost, so no admin runtime repairs them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tests.crash_points import delay_parts, parts
from tests.crash_points.delay_parts import AT_ONCE, FAR, LATER, RETRYING, SOON
from tests.crash_points.mill import mill
from tests.crash_points.stage import People, Stage, people
from tests.keys.keyed_lab import EVENT_ANSWERED
from tests.support.example_service import Report, Task
from tests.support.facts import DEADLINE
from tests.support.fault_proxy import Then, fault_proxy
from trellis_jobs import JobRef
from trellis_jobs.contract.topology import Topology, alarms_stream
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire import headers as h

ALARMS: Final = alarms_stream("mill")
ALARM_ANSWERED: Final = rb'"stream":"%s"' % ALARMS.encode()
ALARM_SENT: Final = rb"PUB trellis\.(alarm|due)\."


async def delaying(stage: Stage) -> None:
    stage.repairs_alarms = False
    async with people(stage) as p:
        await leave_in_retry(stage, p)
        await stage.begin(delay_parts.delay)


async def delaying_cut_off(stage: Stage) -> None:
    """Alarms get lost on the way, and so do the answers to them."""
    stage.repairs_alarms = False
    async with fault_proxy(stage.url) as way, people(stage) as p:
        await leave_in_retry(stage, p)
        for _ in range(3):
            way.when_client_sends(ALARM_SENT, lambda: Then.CUT)
            way.when_server_sends(ALARM_ANSWERED, lambda: Then.CUT)
        await stage.begin(delay_parts.delay, way.url)


async def delaying_in_a_row(stage: Stage) -> None:
    """The first answers are lost, and the connection with them: alarms are set once more."""
    stage.repairs_alarms = False
    async with fault_proxy(stage.url) as way, people(stage):
        way.when_server_sends(ALARM_ANSWERED, lambda: Then.CUT)
        await stage.begin(delay_parts.delay_in_a_row, way.url)


async def delaying_without_schedules(stage: Stage) -> None:
    """The stream is from before 2.12, and the server is not."""
    stage.repairs_alarms = False
    async with people(stage) as p:
        connection = p.raw.connection
        await api.request(connection, f"STREAM.DELETE.{ALARMS}")
        config = Topology(p.raw.features).alarms("mill")
        old = {key: value for key, value in config.items() if not key.startswith("allow_msg")}
        await api.request(connection, f"STREAM.CREATE.{ALARMS}", old)
        await stage.begin(delay_parts.delay_in_a_row)


async def leave_in_retry(stage: Stage, p: People) -> None:
    """Two jobs wait for their next try, for some seconds, and no worker runs."""
    async with mill(stage.folder).connect(stage.url, connect_timeout=DEADLINE):
        for queue, job_id in zip((p.jobs.plain, p.jobs.keyed), RETRYING, strict=True):
            ref = await queue.create(Task(do="later", seconds=FAR), job_id=job_id)
            await p.until_kind(ref, EventKind.RETRY)


async def releasing(stage: Stage) -> None:
    """With and without keys, also full ones; some are moved while their alarm is held."""
    stage.repairs_alarms = False
    async with people(stage) as p:
        jobs = p.jobs
        await stage.begin(parts.work)
        busy = (jobs.punctual, jobs.ousting, jobs.strict)
        holders = [await p.create(queue, "wait") for queue in busy]
        await p.until_started(*holders)
        ousted = await p.create(jobs.ousting)
        refs = [
            await p.delay(jobs.plain, AT_ONCE),
            await p.delay(jobs.plain, SOON),
            await p.delay(jobs.keyed, AT_ONCE, key="one"),
            await p.delay(jobs.keyed, AT_ONCE, key="one"),
            await p.delay(jobs.punctual, SOON),
            await p.delay(jobs.punctual, SOON, key="free"),
            ousted,
        ]
        waiting = [await p.delay(queue, SOON) for queue in (jobs.ousting, jobs.strict)]
        moved = await p.delay(jobs.plain, 0.9)
        await p.stage.until(lambda: is_out(p), "an alarm is held")
        await moved.reschedule(delay=LATER)
        await p.until_over(*refs, moved)
        for ref in (*refs, holders[0]):
            await p.ring(subjects.alarm_of_job(ref.address))
        await p.until_kind(waiting[1], EventKind.CREATED)
        for holder in holders:
            await holder.cancel()
        await p.until_over(*holders, *waiting)
        await p.delay(jobs.plain, 0.9)
        await p.stage.until(lambda: is_out(p), "an alarm is held")
        await stage.end()


async def is_out(p: People) -> bool:
    info = await api.request(p.raw.connection, f"CONSUMER.INFO.{ALARMS}.due")
    return int(info["num_ack_pending"]) > 0


async def receiving_odd_alarms(stage: Stage) -> None:
    """Alarms that are early, without a job, or no alarms; and no stream of alarms for a while."""
    stage.repairs_alarms = False
    async with people(stage) as p:
        await stage.begin(parts.work)
        ref = await p.delay(p.jobs.plain, LATER)
        await p.set_old_alarm(ref.address, utc_now() + timedelta(seconds=SOON))
        missing = JobAddress("mill", "plain", "missing")
        for minutes in (0, 2):
            set_at = utc_now() - timedelta(minutes=minutes)
            alarm = subjects.alarm_of_job(missing)
            await p.ring(alarm, {h.ALARM_SET_AT: set_at.isoformat()})
        await p.raw.connection.publish("trellis.due.mill.rubbish")
        await p.until_over(ref)
        await api.request(p.raw.connection, f"STREAM.DELETE.{ALARMS}")
        await stage.until(lambda: says_so(stage), "the worker misses the stream")
        await provision(p.raw.connection, Topology(p.raw.features, alarms_of=("mill",)))
        await p.until_over(await p.delay(p.jobs.plain, SOON))
        await stage.end()


def says_so(stage: Stage) -> bool:
    return stage.victim is not None and "cannot receive alarms" in stage.victim.output


async def releasing_cut_off(stage: Stage) -> None:
    """The connection is lost with the answer to a release, and with one to an alarm."""
    stage.repairs_alarms = False
    async with fault_proxy(stage.url) as way, people(stage) as p:
        await stage.begin(parts.work, way.url)
        refs: list[JobRef[Report]] = []
        for queue in (p.jobs.plain, p.jobs.keyed):
            way.when_server_sends(EVENT_ANSWERED, lambda: Then.CUT)
            refs.append(await p.delay(queue, AT_ONCE))
            refs.append(await p.delay(queue, SOON))
            await p.until_over(*refs)
        await stage.end()


async def releasing_by_redelivery(stage: Stage) -> None:
    """On a server without message schedules."""
    stage.repairs_alarms = False
    async with people(stage) as p:
        await stage.begin(parts.work)
        jobs = p.jobs
        refs = [await p.delay(queue, LATER) for queue in (jobs.plain, jobs.keyed, jobs.ousting)]
        moved = await p.delay(jobs.plain, SOON)
        await moved.reschedule(delay=LATER)
        await p.until_over(*refs, moved)
        await stage.end()
