"""A service that keeps its keys in a separate bucket may use it, and no other service may.

The admin runtime may too, as it shows and releases the keys of every service.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from tests import given
from tests.permissions.installation import CARELESS, ROOT_USER, Installation
from tests.permissions.services import IN_THE_ORCHARD, ORCHARD, ORCHARD_BUCKET, Chore
from tests.permissions.test_operators_and_the_admin_runtime import BUSY, admin, operator
from tests.permissions.test_refusals import (
    Deed,
    call,
    consumer,
    hears_only_its_own,
    named,
    refused,
)
from tests.support.example_service import ExampleJobs
from tests.support.facts import until
from trellis_jobs import ActiveJob, QueueFull, Service
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects
from trellis_jobs.model.keys.state import KeyAddress, KeyState
from trellis_jobs.wire import keys as wire

KEY: Final = f"$KV.{ORCHARD_BUCKET}.orchard.keyed.0123abcd"
STREAM: Final = f"KV_{ORCHARD_BUCKET}"
INTO_THE_BUCKET: Final = (
    Deed("write a key", KEY, "{}"),
    call("read a key", f"DIRECT.GET.{STREAM}.{KEY}"),
    call("read all keys", f"DIRECT.GET.{STREAM}.$KV.{ORCHARD_BUCKET}.>"),
    call("read a key by body", f"DIRECT.GET.{STREAM}", f'{{"last_by_subj":"{KEY}"}}'),
    call("get a message", f"STREAM.MSG.GET.{STREAM}", '{"seq":1}'),
    call("see the bucket", f"STREAM.INFO.{STREAM}"),
    call(
        "watch keys",
        f"CONSUMER.CREATE.{STREAM}.spy.$KV.{ORCHARD_BUCKET}.orchard.>",
        consumer(STREAM, filter_subject=f"$KV.{ORCHARD_BUCKET}.orchard.>"),
    ),
    call("purge the bucket", f"STREAM.PURGE.{STREAM}", undone=True),
    call("delete the bucket", f"STREAM.DELETE.{STREAM}", undone=True),
)
OUT_OF_THE_BUCKET: Final = (
    Deed("write a key of another", "$KV.JOBS_KEYS.house.keyed.0123abcd", "{}"),
    Deed("write a key of its own into the other bucket", "$KV.JOBS_KEYS.orchard.keyed.0123", "{}"),
    Deed("write a key of another into its bucket", f"$KV.{ORCHARD_BUCKET}.house.keyed.0123", "{}"),
    call("read a key of another", "DIRECT.GET.KV_JOBS_KEYS.$KV.JOBS_KEYS.house.keyed.0123abcd"),
    call("read its own in the other", "DIRECT.GET.KV_JOBS_KEYS.$KV.JOBS_KEYS.orchard.keyed.0123"),
    call("read all of its bucket", f"DIRECT.GET.{STREAM}.$KV.{ORCHARD_BUCKET}.>"),
    call("get a message of its bucket", f"STREAM.MSG.GET.{STREAM}", '{"seq":1}'),
    call("purge its bucket", f"STREAM.PURGE.{STREAM}", undone=True),
    call("delete its bucket", f"STREAM.DELETE.{STREAM}", undone=True),
)


@pytest.mark.parametrize("deed", INTO_THE_BUCKET, ids=named)
async def test_another_service_may_not(installation: Installation, deed: Deed) -> None:
    await refused(installation, "garden", deed)


@pytest.mark.parametrize("deed", INTO_THE_BUCKET, ids=named)
async def test_from_another_account_no_service_could(in_accounts: Installation, deed: Deed) -> None:
    await refused(in_accounts, CARELESS, deed)


@pytest.mark.parametrize("deed", OUT_OF_THE_BUCKET, ids=named)
async def test_the_service_itself_may_not(installation: Installation, deed: Deed) -> None:
    await refused(installation, "orchard", deed)


async def test_no_other_service_receives_its_keys(installation: Installation) -> None:
    await hears_only_its_own(installation, "garden", f"$KV.{ORCHARD_BUCKET}.orchard.>", KEY)


@dataclass
class Pickers:
    service: Service[ExampleJobs[Chore, str]]
    running: set[str] = field(default_factory=set)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def jobs(self) -> ExampleJobs[Chore, str]:
        return self.service.jobs

    async def handle(self, active: ActiveJob[Chore]) -> str:
        self.running.add(active.id)
        if active.payload.do == "wait":
            await self.go.wait()
        return active.payload.room


@asynccontextmanager
async def pickers(installation: Installation) -> AsyncIterator[Pickers]:
    made = Pickers(Service(ORCHARD, bindings=IN_THE_ORCHARD))
    made.jobs.keyed.handle(made.handle)
    before = installation.violations("orchard")
    async with made.service.connect(installation.access("orchard")):
        yield made
    assert installation.violations("orchard") == before


async def test_its_jobs_wait_for_each_other_with_the_printed_rights(
    installation: Installation,
) -> None:
    async with pickers(installation) as at_work:
        room = f"pears-{installation.shape}"
        first = await at_work.jobs.keyed.create(Chore(do="wait", room=room))
        await until(lambda: first.id in at_work.running, "the first runs")
        second = await at_work.jobs.keyed.create(Chore(room=room))
        with pytest.raises(QueueFull):
            await at_work.jobs.keyed.create(Chore(room=room))
        at_work.go.set()
        assert await second.wait(timeout=10) == room
    async with installation.connection(ROOT_USER) as root:
        info = await api.request(root, f"STREAM.INFO.{STREAM}", {"subjects_filter": "$KV.>"})
        assert any(".orchard.keyed." in each for each in info["state"]["subjects"])


async def test_operators_see_its_keys_and_the_admin_runtime_repairs_them(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        pickers(installation) as at_work,
        admin(installation, tmp_path, **BUSY),
        operator(installation, "both") as asker,
    ):
        room = f"plums-{installation.shape}"
        ref = await at_work.jobs.keyed.create(Chore(do="wait", room=room))
        await until(lambda: ref.id in at_work.running, "it runs")
        waiting = await at_work.jobs.keyed.create(Chore(room=room))

        async def is_listed() -> bool:
            return any([key.key == f"room:{room}" async for key in asker.busy_keys()])

        await until(is_listed, "the projection has it")
        shown = await asker.get_key("orchard", "keyed", f"room:{room}")
        assert (shown.bucket, shown.active[0].job_id) == (ORCHARD_BUCKET, ref.id)
        assert [each.job_id for each in shown.queued] == [waiting.id]
        await asker.cancel(waiting.address)
        assert (await asker.get_key("orchard", "keyed", f"room:{room}")).queued == ()
        at_work.go.set()
        assert await ref.wait(timeout=10) == room
        await leave_behind(installation, shown.key_hash, room, ref.id)

        async def is_repaired() -> bool:
            return not (await asker.get_key("orchard", "keyed", f"room:{room}")).queued

        await until(is_repaired, "the job that is over was taken out of its key")


async def leave_behind(installation: Installation, key_hash: str, room: str, job_id: str) -> None:
    """The job waits for its key although it is over, as a process that died may leave it."""
    address = KeyAddress("orchard", "keyed", key_hash, ORCHARD_BUCKET)
    left = given.waiting(job_id, created_at=utc_now() - timedelta(minutes=1))
    state = KeyState(
        address=address, display=f"room:{room}", max_active=1, max_queued=1, queued=(left,)
    )
    async with installation.connection(ROOT_USER) as root:
        await root.request(
            subjects.key_state(address), wire.encode(state, wire.WaitingEntryCache())
        )
