"""A service whose jobs say what could take over a terminal, in every place they can."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

import nats
from pydantic import BaseModel

from jobs_admin.api.client import AdminClient
from tests.cli.forbidden import HOSTILE
from tests.support.lab import until_state
from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, QueueDepth, Service, Workers, job
from trellis_jobs.environment import utc_now
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.states import JobState
from trellis_jobs.model.subjects import presence
from trellis_jobs.wire import presence as wire

OFTEN: Final = ScheduleAddress("hostile", "speak", "often")
# What a subject and a header can carry.
IN_A_SUBJECT: Final = "\x1b]0;pwned\x07\x9b31m\u202e"


class Words(BaseModel):
    words: str
    fails: bool = False


class HostileJobs(Jobs, service="hostile"):
    speak = job(Words, str, max_deliver=1, ack_wait=5)
    keyed = job(
        Words, key=KeyConcurrency(["/words"]), queue=QueueDepth(max_queued_per_key=3), ack_wait=5
    )


service = Service(HostileJobs)


@service.jobs.speak.handle
async def speak(active: ActiveJob[Words]) -> str:
    words = active.payload.words
    await active.log(words)
    await active.progress(current=1, total=2, step=words, message=words)
    logging.getLogger("hostile").warning("%s", words)
    print(words)
    if active.payload.fails:
        raise RuntimeError(words)
    return words


class Planted(BaseModel):
    """The ids of one job of each kind; `dead` has two more like it."""

    done: str
    dead: str
    waiting: str
    cancelled: str


async def plant(url: str) -> Planted:
    async with (
        service.connect(url, workers=Workers(queues=["speak"])),
        AdminClient.connect(url, by=HOSTILE) as admin,
    ):
        jobs = service.jobs
        done = await jobs.speak.create(Words(words=HOSTILE))
        dead = [await jobs.speak.create(Words(words=HOSTILE, fails=True)) for _ in range(3)]
        waiting = await jobs.keyed.create(Words(words=HOSTILE))
        cancelled = await jobs.keyed.create(Words(words=HOSTILE))
        await admin.cancel(cancelled.id, reason=HOSTILE)
        await admin.schedules.put(OFTEN, {"words": HOSTILE}, every=timedelta(hours=1))
        await admin.schedules.pause(OFTEN, reason=HOSTILE)
        await until_state(done, JobState.COMPLETED)
        for each in dead:
            await until_state(each, JobState.DEAD)
    await _forge(url)
    return Planted(done=done.id, dead=dead[0].id, waiting=waiting.id, cancelled=cancelled.id)


async def beat(url: str) -> None:
    """The heartbeat of a worker, which counts as alive for a while."""
    told = WorkerHeartbeat(
        service="hostile", job_type="speak", instance="w1", at=utc_now(), version=HOSTILE
    )
    client = await nats.connect(url)
    await client.request(presence("hostile", "speak", "w1"), wire.encode(told))
    await client.close()


async def _forge(url: str) -> None:
    """What a hostile client can send besides jobs: events, a request."""
    client = await nats.connect(url)
    for subject, body in (
        (f"trellis.jobs.hostile.speak.{IN_A_SUBJECT}.completed", b"no event"),
        (f"trellis.jobs.hostile.speak.x.{IN_A_SUBJECT}", HOSTILE.encode()),
    ):
        await client.request(subject, body)
    await client.request("rpc.v1.Jobs.Get", b"{}", headers={"request-id": IN_A_SUBJECT})
    await client.close()
