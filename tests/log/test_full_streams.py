"""A full log or store is said at once, and costs nothing that is there.

The server answers within milliseconds: 10077 (a limit of the stream), 10023 (the server's storage)
or 10002 (the account's storage). Before, create() asked again for 30 s and then said that the job
"a write may have been stored".
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs_admin.api.errors import LogFull
from tests.admin.admin_lab import admin_lab, until_shown
from tests.keys.keyed_lab import Key, helpdesk
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.full_streams import bound, fill_storage, free_storage, state_of
from tests.support.lab import Probe, dead_jobs, probe, producer, worker
from trellis_jobs import StreamFull
from trellis_jobs.contract.topology import LOG
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import SomeNotCreated
from trellis_jobs.jetstream.setup import storage_info
from trellis_jobs.model.states import JobState
from trellis_jobs.model.usage import Level, Usage

AT_ONCE = 10.0  # far below the 30 s that create() has
SMALL_STORE = "jetstream { max_file_store: 400000 }"
SMALL_ACCOUNT = """
    accounts {
        JOBS: { jetstream: { max_file: 400000, max_mem: 400000 }, users: [ { user: a, pass: a } ] }
        SYS: { users: [ { user: s, pass: s } ] }
    }
    system_account: SYS
    no_auth_user: a
"""


@dataclass(frozen=True)
class Want:
    """A way to run out of space, and how the server words it."""

    config: str
    limit: str
    code: int

    async def begin(self, raw: Probe) -> None:
        if self.config:
            await fill_storage(raw)
        elif "bytes" in self.limit:
            await bound(raw, max_bytes=(await state_of(raw))["bytes"] + 10)
        else:
            await bound(raw, max_msgs=(await state_of(raw))["messages"])


WANTS = {
    "bytes of the stream": Want("", "maximum bytes exceeded", 10077),
    "messages of the stream": Want("", "maximum messages exceeded", 10077),
    "storage of the server": Want(SMALL_STORE, "the server's JetStream storage is used up", 10023),
    "storage of the account": Want(
        SMALL_ACCOUNT, "the JetStream storage of the account is used up", 10002
    ),
}


@asynccontextmanager
async def at_once() -> AsyncIterator[None]:
    async with asyncio.timeout(AT_ONCE):
        yield


@pytest.mark.parametrize("want", WANTS.values(), ids=WANTS)
async def test_what_does_not_fit_is_refused_at_once_and_by_name(want: Want) -> None:
    with EmbeddedServer.start(config=want.config) as server:
        async with producer(server.url) as jobs, probe(server.url) as raw:
            waiting = await jobs.work.create(Task())
            await want.begin(raw)
            before = (await state_of(raw))["last_seq"]
            async with at_once():
                with pytest.raises(StreamFull) as caught:
                    await jobs.work.create(Task())
                with pytest.raises(StreamFull):
                    await jobs.work.submit(Task())
                with pytest.raises(StreamFull):
                    await waiting.cancel()
                with pytest.raises(SomeNotCreated) as some:
                    await jobs.work.create_many(Task() for _ in range(300))
            full = caught.value
            assert (full.stream, full.limit, full.code) == (LOG, want.limit, want.code)
            assert "nothing was stored" in str(full)
            assert len(some.value.failed) == 300
            assert {type(each) for each in some.value.failed.values()} == {StreamFull}
            assert (await state_of(raw))["last_seq"] == before


async def test_those_of_many_that_fit_are_created(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        await jobs.work.create(Task())
        await bound(raw, max_msgs=(await state_of(raw))["messages"] + 200)
        with pytest.raises(SomeNotCreated) as some:
            await jobs.work.create_many(Task() for _ in range(300))
        assert (len(some.value.created), len(some.value.failed)) == (200, 100)
        for job_id in some.value.created.values():
            assert await raw.events.head(jobs.work.ref(job_id).address) is not None


async def test_a_key_keeps_no_place_for_a_job_that_did_not_fit(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        first = await jobs.replace.create(Task())
        second = await jobs.replace.create(Task())
        key = Key(raw, "replace")
        queued = await key.queued()
        assert queued == [first.id, second.id]
        await bound(raw, max_msgs=(await state_of(raw))["messages"])
        async with at_once():
            with pytest.raises(StreamFull):
                await jobs.replace.create(Task())  # it would replace a job: an atomic batch
            with pytest.raises(StreamFull):
                await jobs.replace.create(Task(key="globex"))
        assert await key.queued() == queued
        assert await Key(raw, "replace", value="globex").queued() == []
        await bound(raw, max_msgs=-1)
        await jobs.replace.create(Task())


async def test_an_outcome_waits_for_space_and_the_job_stays_where_it_runs(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """`ack_wait` is 1 s: without its lease the job would be started a second time."""
    renewals: list[bytes] = []
    async with (
        fault_proxy(server.url) as way,
        worker(way.url, "work") as bench,
        probe(server.url) as raw,
    ):
        ref = await bench.jobs.work.create(Task(do="wait", text="kept"))
        await bench.until_running(ref)
        await bound(raw, max_msgs=(await state_of(raw))["messages"])
        with caplog.at_level(logging.WARNING):
            bench.go.set()
            await until(lambda: "stream JOBS is full" in caplog.text, "the worker says so")
            way.on_answers(lambda _, body: renewals.append(body), uses=sys.maxsize)
            await until(lambda: renewals.count(b"+WPI") >= 6, "its lease is renewed twice over")
            assert (await ref.get()).state is JobState.ACTIVE
            await bound(raw, max_msgs=-1)
            report = await ref.wait(timeout=20)
        assert (report.text, report.tries) == ("kept", 1)
        assert bench.runs == [(ref.id, 1)]
        assert "stream JOBS takes messages again" in caplog.text
        assert caplog.text.count("stream JOBS is full") == 1


async def test_operators_are_told_and_nothing_changes(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    [dead] = await dead_jobs(server.url, "broken")
    async with admin_lab(server.url, tmp_path) as lab, probe(server.url) as raw:
        await until_shown(lab.client, [dead], JobState.DEAD)
        await bound(raw, max_msgs=(await state_of(raw))["messages"])
        async with at_once():
            for action in (lab.client.retry, lab.client.dismiss):
                with pytest.raises(LogFull) as caught:
                    await action(dead)
                assert (caught.value.stream, caught.value.limit) == (
                    LOG,
                    "maximum messages exceeded",
                )
        told = (await lab.client.health()).check("streams")
        assert told is not None
        assert told.error is not None
        assert "messages of stream JOBS: 100% used" in told.error
        await bound(raw, max_msgs=-1)
        await lab.client.retry(dead)


def test_usage_is_worth_a_warning_from_four_fifths_on() -> None:
    levels = [Usage("x", used, 100).level for used in (0, 79, 80, 94, 95, 100, 120)]
    fine, filling, full = Level.FINE, Level.FILLING, Level.FULL
    assert levels == [fine, fine, filling, filling, full, full, full]


async def test_limits_of_streams_and_accounts_are_read_from_the_server() -> None:
    with EmbeddedServer.start(config=SMALL_ACCOUNT) as server:
        async with producer(server.url) as jobs, probe(server.url) as raw:
            await jobs.work.create(Task())
            await bound(raw, max_bytes=50_000)
            found = {usage.what: usage for usage in await storage_info.usages(raw.connection)}
            assert found["bytes of stream JOBS"].limit == 50_000
            assert found["bytes of stream JOBS"].level is Level.FINE
            assert found["JetStream storage of the account"].limit == 400_000
            await bound(raw, max_bytes=-1)
            await fill_storage(raw)
            [storage] = [
                usage
                for usage in await storage_info.usages(raw.connection)
                if usage.what == "JetStream storage of the account"
            ]
            assert storage.level is Level.FULL
            await free_storage(raw)
            await jobs.work.create(Task())
