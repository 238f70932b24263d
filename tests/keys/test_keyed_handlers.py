"""What a handler knows about its key, and how its slot is renewed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest
from pydantic import BaseModel

from tests.keys.work_lab import (
    key_view,
    lease_of,
    producer,
    started_order,
    until_out,
    worker,
    yard_process,
)
from tests.support.example_service import Report, Task, example_jobs
from tests.support.facts import until
from tests.support.lab import probe
from trellis_jobs import JobFailed, KeyLease, Service
from trellis_jobs.embedded import EmbeddedServer


async def test_a_handler_sees_its_key_and_a_lease_that_is_renewed_while_it_runs(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "brisk") as working,
    ):
        ref = await jobs.brisk.create(Task(key="acme", do="wait"))
        active = await working.until_running(ref)
        first, ttl = active.key_lease, lease_of(jobs.brisk).heartbeat_ttl
        assert isinstance(first, KeyLease)
        assert active.key == "yard:acme"
        assert (first.is_held, first.expires_at - first.renewed_at) == (True, ttl)

        def renewed() -> KeyLease | None:
            lease = active.key_lease
            return lease if lease and lease.renewed_at > first.expires_at else None

        later = await until(renewed, "it was renewed for longer than its first lease")
        assert (later.is_held, later.expires_at - later.renewed_at) == (True, ttl)
        slot = await key_view(raw, jobs.brisk).until_held_by(ref)
        assert slot.heartbeat_at >= later.renewed_at
        assert not active.cancelled
        working.go.set()
        assert (await ref.wait(timeout=10)).tries == 1
        assert await raw.kinds(ref) == ["created", "started", "completed"]


async def test_a_heartbeat_renews_the_slot_at_once(server: EmbeddedServer) -> None:
    """The calm queue renews by itself every ten seconds only."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        ref = await jobs.calm.create(Task(do="wait"))
        active = await working.until_running(ref)
        first = (await key_view(raw, jobs.calm).until_held_by(ref)).heartbeat_at
        begun, interval = time.monotonic(), lease_of(jobs.calm).heartbeat_interval

        async def renewed() -> bool:
            await active.heartbeat()
            slot = await key_view(raw, jobs.calm).until_held_by(ref)
            return slot.heartbeat_at > first

        await until(renewed, "the slot is renewed")
        assert time.monotonic() - begun < interval.total_seconds()
        assert active.key_lease is not None
        assert active.key_lease.renewed_at > first


async def test_a_handler_that_blocks_the_event_loop_longer_than_its_lease_keeps_its_slot(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with yard_process(server.url, tmp_path, "brisk", concurrency=1) as blocked:
            await blocked.until_ready()
            ttl = lease_of(jobs.brisk).heartbeat_ttl.total_seconds()
            blocking = await jobs.brisk.create(Task(do="block", seconds=2 * ttl))
            await blocked.until_running(blocking)
            async with worker(server.url, "brisk"):
                following = await jobs.brisk.create(Task())
                await until_out(raw, jobs.brisk, 2)
                assert (await blocking.wait(timeout=20)).tries == 1
                assert (await following.wait(timeout=20)).tries == 1
        assert await started_order(raw, [blocking, following]) == [blocking.id, following.id]
        assert await raw.kinds(blocking) == ["created", "started", "completed"]
        assert (await key_view(raw, jobs.brisk).until_empty()).stale_takeovers == 0


class Stranger(BaseModel):
    key: list[str] = []


# The same queue, declared by a process that knows of no key.
STRANGERS: Final = example_jobs(
    "yard",
    Stranger,
    Report,
    calm={},
)


@pytest.mark.parametrize("payload", [Stranger(), Stranger(key=["a", "b"])], ids=str)
async def test_a_job_whose_key_cannot_be_derived_fails_and_says_so(
    server: EmbeddedServer, payload: Stranger
) -> None:
    strangers = Service(STRANGERS)
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        strangers.connect(server.url, workers=False),
        worker(server.url, "calm") as working,
    ):
        ref = await strangers.jobs.calm.create(payload)
        with pytest.raises(JobFailed, match="/key"):
            await ref.wait(timeout=10)
        [error] = (await ref.get()).errors
        assert (error.type, error.tries) == ("key_unresolvable", 1)
        assert await raw.kinds(ref) == ["created", "started", "failed"]
        assert (await (await jobs.calm.create(Task())).wait(timeout=10)).tries == 1
        assert working.begun == [] or ref.id not in working.begun
        await raw.until_empty()
