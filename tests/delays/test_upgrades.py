"""An installation of the version before, or of an older server, is upgraded while jobs run."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cli.shell import shell
from tests.delays.delay_lab import (
    A_DAY,
    ALARMS,
    LATER,
    SOON,
    Ledger,
    ledger,
    producer,
    worker,
)
from tests.permissions.installation import printed
from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.lab import until_state
from tests.support.servers import NEWEST, server_binary
from trellis_jobs import JobRef, Queue, Service
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import NotPermitted, StreamMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model.states import JobState

# The name of this service, for commands that import it.
service: Final = Service(LATER)
NAME: Final = "tests.delays.test_upgrades:service"
NO_ALARMS: Final = "this worker cannot receive alarms"
# What the version before did not print.
_OF_ALARMS: Final = re.compile(r'^ *"[^"]*(trellis\.(alarm|due)\.|JOBS_ALARMS_)[^"]*"\n', re.M)


@contextmanager
def running(version: str, store: Path, port: int | None, config: str) -> Iterator[EmbeddedServer]:
    made = EmbeddedServer.start(
        store=store, port=port, binary=server_binary(version), config=config
    )
    with made as server:
        yield server


def permissions(*, of_before: bool) -> str:
    """What `trellis-jobs permissions` prints, now or in the version before, and an owner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATER_PASSWORD", "later")
        config = printed("--service", NAME, "--shape", "users")
    config = config.replace("$LATER_PASSWORD", "later")
    config = config.replace("users: [", "users: [ { user: owner, password: owner }", 1)
    return _OF_ALARMS.sub("", config) if of_before else config


def urls(server: EmbeddedServer) -> tuple[str, ConnectOptions]:
    """Of the owner, and of the service."""
    own = ConnectOptions(servers=server.url, user="later", password="later")  # noqa: S106
    return f"nats://owner:owner@{HOST}:{server.port}", own


async def apply_infra(url: str) -> None:
    """As an operator does, with the service."""
    applied = await asyncio.to_thread(shell, "infra", "apply", NAME, "--yes", "--nats", url)
    assert applied.code == 0, applied.err


async def install_version_before(url: str) -> None:
    """The streams, without those for alarms, and the consumers."""
    async with ledger(url) as books:
        await provision(books.raw.connection, Topology(books.raw.features))


async def delays_are_refused(ref: JobRef[Report], queue: Queue[Task, Report]) -> None:
    """With an error that tells why, and at once."""
    with pytest.raises((NotPermitted, StreamMissing)):
        await queue.create(Task(), delay=SOON)
    with pytest.raises((NotPermitted, StreamMissing)):
        await ref.run_now()


async def test_a_service_with_its_old_permissions_goes_on_and_gets_delays_with_the_new_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything goes on by itself: the worker is not started again."""
    with running(NEWEST, tmp_path, None, permissions(of_before=True)) as before:
        owner, own = urls(before)
        await install_version_before(owner)
        async with producer(own) as jobs:
            waiting = await jobs.work.create(Task())
        with caplog.at_level(logging.WARNING):
            async with worker(own) as bench:
                await until_state(bench.jobs.work.ref(waiting.id), JobState.COMPLETED)
                await until(lambda: NO_ALARMS in caplog.text, "the worker says so")
                failed = await bench.jobs.patient.create(Task(do="fail once"))
                await until_state(failed, JobState.RETRY)
                await delays_are_refused(failed, bench.jobs.work)
                await (await bench.jobs.waiting.create(Task())).wait(timeout=20)
                await asyncio.to_thread(before.stop)
                new = permissions(of_before=False)
                with running(NEWEST, tmp_path, before.port, new):
                    await delays_work_after_infra_apply(owner, bench.jobs.work, failed)


async def delays_work_after_infra_apply(
    owner: str, queue: Queue[Task, Report], failed: JobRef[Report]
) -> None:
    await apply_infra(owner)
    ref = await queue.create(Task(), delay=SOON)
    await failed.run_now()
    await ref.wait(timeout=60)
    assert (await failed.wait(timeout=60)).tries == 2
    async with ledger(owner) as books:
        await books.ran_once_and_not_early(ref)
        await books.ran_once_and_not_early(failed, tries=2)


async def has_schedules(books: Ledger) -> bool:
    info = await api.request(books.raw.connection, f"STREAM.INFO.{ALARMS}")
    return bool(info["config"].get("allow_msg_schedules"))


async def kept_alarms(books: Ledger) -> int:
    """Alarms that the server keeps until their time."""
    call, kept = f"STREAM.INFO.{ALARMS}", "trellis.alarm.>"
    info = await api.request(books.raw.connection, call, {"subjects_filter": kept})
    return len(info["state"].get("subjects") or {})


async def test_the_alarms_of_2_11_come_on_a_newer_server_too(tmp_path: Path) -> None:
    """The stream has no message schedules there, so that its alarms are redelivered as before. A
    worker that was connected before goes on, beside one that knows the new server.
    """
    with running("2.11.11", tmp_path, None, "") as before:
        async with worker(before.url), producer(before.url) as jobs:
            done = await jobs.work.create(Task(), delay=0.5)
            await done.wait(timeout=20)
            soon = await jobs.work.create(Task(), delay=6)
            tomorrow = await jobs.work.create(Task(), delay=A_DAY)
            moved = await jobs.work.create(Task(), delay=SOON)
            await moved.reschedule(delay=8)
            await asyncio.to_thread(before.stop)
            with running(NEWEST, tmp_path, before.port, "") as after:
                async with worker(after.url) as newer, ledger(after.url) as books:
                    assert not await has_schedules(books)
                    early = await newer.jobs.work.create(Task(), delay=SOON)
                    many = await newer.jobs.work.create_many([Task()] * 20, delay=SOON)
                    await tomorrow.run_now()
                    all_jobs = [done, soon, moved, early, *many, tomorrow]
                    await books.until_all_ran(all_jobs, deadline=40)


async def test_after_infra_apply_the_server_keeps_the_alarms_also_those_of_2_11(
    tmp_path: Path,
) -> None:
    """As soon as a worker gets them, which are early for it."""
    with running("2.11.11", tmp_path, None, "") as before:
        async with producer(before.url) as jobs:
            far = [await jobs.work.create(Task(), delay=A_DAY) for _ in range(3)]
        port = before.port
        await asyncio.to_thread(before.stop)
    with running(NEWEST, tmp_path, port, "") as after:
        async with ledger(after.url) as books:
            assert await kept_alarms(books) == 0
            await apply_infra(after.url)
            assert await has_schedules(books)
            async with worker(after.url) as newest:

                async def all_kept() -> bool:
                    return await kept_alarms(books) == len(far)

                await until(all_kept, "the server keeps all alarms")
                near = await newest.jobs.work.create(Task(), delay=SOON)
                first = newest.jobs.work.ref(far[0].id)
                await first.run_now()
                for ref in (near, first):
                    await ref.wait(timeout=20)
                await books.ran_once_and_not_early(near, first)
                assert await books.kinds(far[1]) == ["scheduled"]
