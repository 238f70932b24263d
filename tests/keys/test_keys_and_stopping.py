"""A worker pauses, stops or loses its connection while jobs wait in it for their key."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.keys.work_lab import key_view, producer, until_out, worker, yard_process, yard_worker
from tests.support.example_service import Report, Task, TaskWorker
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef, Queue, Workers
from trellis_jobs.embedded import EmbeddedServer

# Leases of the calm queue last a minute: what happens sooner was caused by something else.
AT_ONCE = 20.0


@dataclass
class Held:
    """A worker with one slot runs a job, so the others of its key are parked elsewhere."""

    holder: TaskWorker
    running: JobRef[Report]

    async def park(self, raw: Probe, queue: Queue[Task, Report]) -> list[JobRef[Report]]:
        refs = [await queue.create(Task()) for _ in range(5)]
        await until_out(raw, queue, 6)
        return refs


@asynccontextmanager
async def held_key(url: str, queue: Queue[Task, Report]) -> AsyncIterator[Held]:
    async with worker(url, queue.type.name, concurrency=1) as holder:
        running = await queue.create(Task(do="wait"))
        await holder.until_running(running)
        yield Held(holder, running)


async def each_runs_at_once(refs: list[JobRef[Report]]) -> None:
    begun = time.monotonic()
    for ref in refs:
        assert (await ref.wait(timeout=20)).tries == 1
    assert time.monotonic() - begun < AT_ONCE


def handed_back(way: FaultProxy) -> set[str]:
    """The sequences of the work messages that workers behind the proxy hand back from now on."""
    found: set[str] = set()

    def note(reply: str, body: bytes) -> None:
        if body.startswith(b"-NAK"):
            _, _, _, _, _, sequence, *_ = reply.split(".")  # $JS.ACK.stream.consumer.count.sequence
            found.add(sequence)

    way.on_answers(note, uses=sys.maxsize)
    return found


async def test_a_worker_that_goes_quiet_hands_back_what_waits_in_it(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
        held_key(server.url, jobs.calm) as held,
        worker(way.url, "calm") as quiet,
    ):
        refs = await held.park(raw, jobs.calm)
        back = handed_back(way)
        quiet.service.quiet()
        await until(lambda: len(back) == len(refs), "every job that waits in it is handed back")
        held.holder.go.set()
        await each_runs_at_once(refs)
        assert quiet.begun == []
        assert sorted(held.holder.begun) == sorted([held.running.id, *(ref.id for ref in refs)])
        quiet.service.resume()


@pytest.mark.parametrize("how", ["stop", "SIGTERM"])
async def test_a_worker_that_stops_hands_back_what_waits_in_it(
    server: EmbeddedServer, tmp_path: Path, how: str
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        held_key(server.url, jobs.calm) as held,
    ):
        if how == "stop":
            async with worker(server.url, "calm"):
                refs = await held.park(raw, jobs.calm)
        else:
            with yard_process(server.url, tmp_path, "calm") as process:
                await process.until_ready()
                refs = await held.park(raw, jobs.calm)
                process.send(signal.SIGTERM)
                assert await process.until_exit() == 0
                assert process.runs == []
        held.holder.go.set()
        await each_runs_at_once(refs)
        await key_view(raw, jobs.calm).until_empty()


async def test_a_drain_waits_for_what_waits_for_its_key(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        held_key(server.url, jobs.calm) as held,
    ):
        drained = yard_worker()
        async with drained.service.connect(server.url, workers=Workers(["calm"])):
            refs = await held.park(raw, jobs.calm)
            draining = asyncio.create_task(drained.service.drain())
            end = time.monotonic() + 2
            await until(lambda: time.monotonic() > end, "a drain has looked several times")
            assert not draining.done()
            held.holder.service.quiet()
            held.holder.go.set()
            await draining
            assert drained.begun == [ref.id for ref in refs]
        for ref in refs:
            assert (await ref.wait(timeout=20)).tries == 1


async def test_jobs_that_wait_are_woken_although_the_connection_was_cut_at_the_release(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
        held_key(server.url, jobs.calm) as held,
        worker(way.url, "calm") as cut_off,
    ):
        refs = await held.park(raw, jobs.calm)
        held.holder.service.quiet()
        await until_silent(way)  # so that no read of the key is under way
        way.freeze()
        held.holder.go.set()
        await held.running.wait(timeout=10)
        await until_free(raw, jobs.calm)
        way.cut()  # and what was held back is lost
        way.thaw()
        await each_runs_at_once(refs)
        assert cut_off.begun == [ref.id for ref in refs]


async def until_silent(way: FaultProxy) -> None:
    spoken = [time.monotonic()]
    way.on_message(lambda _: spoken.append(time.monotonic()))
    await until(lambda: time.monotonic() - spoken[-1] > 0.3, "there is no traffic for a while")


async def until_free(raw: Probe, queue: Queue[Task, Report]) -> None:
    async def free() -> bool:
        return (await key_view(raw, queue).read()).active == ()

    await until(free, "the slot is free")


async def test_jobs_that_wait_outlive_a_restart_of_the_server(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        held_key(server.url, jobs.calm) as held,
        worker(server.url, "calm"),
    ):
        refs = await held.park(raw, jobs.calm)
        server.kill()
        server.restart()
        held.holder.go.set()
        assert (await held.running.wait(timeout=20)).tries == 1
        for ref in refs:
            assert (await ref.wait(timeout=20)).tries == 1
        await raw.until_empty()
        await key_view(raw, jobs.calm).until_empty()


async def test_short_leases_outlive_a_restart_of_the_server_too(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        held_key(server.url, jobs.brisk) as held,
        worker(server.url, "brisk") as other,
    ):
        refs = await held.park(raw, jobs.brisk)
        server.kill()
        server.restart()
        held.holder.go.set()
        other.go.set()
        for ref in (held.running, *refs):
            await ref.wait(timeout=20)
        await raw.until_empty()
        await key_view(raw, jobs.brisk).until_empty()
