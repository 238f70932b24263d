"""`trellis-jobs services` and `workers list`: workers, their queues, and unattended queues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.api.views.services import WorkerView
from jobs_admin.cli.workers.list import workers_in_log
from tests.cli.command import running
from tests.cli.shell import Ended, shell
from tests.cli.stage import Stage, stage
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import producer, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client.connection import Connection

RED = "\x1b[31m"
SHOP = ("worker", "tests.cli.shop:service")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A worker of the shop, and two jobs of the lab without a worker."""
    with stage(tmp_path_factory.mktemp("stage")) as made:
        asyncio.run(_create(made.url))
        with running(tmp_path_factory.mktemp("shop"), *SHOP, "--nats", made.url):
            asyncio.run(until(lambda: _workers(made.url)["workers"], "the shop was seen"))
            yield made


async def _create(url: str) -> None:
    async with producer(url) as jobs:
        for _ in range(2):
            await jobs.slow.create(Task())


def _workers(url: str) -> dict[str, Any]:
    told = shell("workers", "list", "--json", env={"NATS_URL": url}).json
    assert isinstance(told, dict)
    return told


def test_types_are_told_with_their_workers_and_what_waits(there: Stage) -> None:
    services = {each["name"]: each for each in there.shell("services", "--json").json["services"]}
    [slow] = services["lab"]["types"]
    assert (slow["type"], slow["pending"], slow["unattended"]) == ("slow", 2, True)
    greet = next(of for of in services["shop"]["types"] if of["type"] == "greet")
    assert (greet["liveWorkers"], greet["unattended"]) == (1, False)


def test_a_queue_without_a_worker_is_red(there: Stage) -> None:
    ended = there.at_terminal("services")
    [slow] = [line for line in ended.out.splitlines() if "slow" in line]
    [greet] = [line for line in ended.out.splitlines() if "greet" in line]
    assert RED in slow
    assert "none" in slow
    assert RED not in greet
    assert "1 job type has waiting jobs and no live worker" in ended.plain
    assert "\x1b" not in there.shell("services").out


def test_a_worker_is_one_row_with_all_its_types(there: Stage) -> None:
    shown = there.shell("workers", "list")
    [row] = [line for line in shown.out.splitlines() if "shop" in line]
    assert "greet ×1, nap ×1, shrug ×1" in row
    assert shown.err == ""
    instances = {each["instanceId"] for each in _workers(there.url)["workers"]}
    assert instances == {row.split()[0]}


def test_without_an_admin_runtime_the_heartbeats_in_the_log_tell(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(tmp_path, *SHOP, "--nats", server.url):

        def heard() -> Ended | None:
            ended = shell("workers", "list", "--json", env={"NATS_URL": server.url})
            return ended if ended.code == 0 and len(ended.json["workers"]) == 3 else None

        ended = asyncio.run(until(heard, "all three types were seen"))
    assert {each["jobType"] for each in ended.json["workers"]} == {"greet", "nap", "shrug"}
    assert "heartbeats in the log" in ended.err


async def test_who_was_not_heard_of_for_long_is_gone(server: EmbeddedServer) -> None:
    """Servers before 2.11 keep heartbeats for ever."""
    async with worker(server.url, "work"):
        connection = await Connection.open(server.url, name="test")

        async def heard() -> list[WorkerView]:
            return await workers_in_log(connection, utc_now())

        await until(heard, "the worker was seen")
        assert await workers_in_log(connection, utc_now() + timedelta(minutes=2)) == []
        await connection.close()


def test_without_a_log_it_says_so(server: EmbeddedServer) -> None:
    ended = shell("workers", "list", env={"NATS_URL": server.url})
    assert ended.code == 1
    assert "stream JOBS" in ended.err
