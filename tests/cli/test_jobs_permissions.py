"""An operator who may only ask the admin runtime sees what it can tell, and why not the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.admin.test_operator_rights import CONFIG
from tests.cli.command import running
from tests.cli.shell import Ended, shell
from tests.support.lab import Task, producer
from trellis_jobs.embedded import HOST, EmbeddedServer


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(config=CONFIG) as running_server:
        yield running_server


def url(server: EmbeddedServer, user: str) -> str:
    return f"nats://{user}:{user}@{HOST}:{server.port}"


def as_reader(server: EmbeddedServer, *command: str) -> Ended:
    return shell("jobs", *command, env={"NATS_URL": url(server, "reader")})


def pending(server: EmbeddedServer, task: Task) -> str:
    async def create() -> str:
        async with producer(url(server, "admin")) as jobs:
            return (await jobs.work.create(task)).id

    return asyncio.run(create())


@contextmanager
def admin_runtime(server: EmbeddedServer, folder: Path) -> Iterator[None]:
    serve = ("admin", "serve", "--nats", url(server, "admin"), "--db", str(folder / "jobs.sqlite"))
    with running(folder, *serve) as runtime:
        asyncio.run(runtime.until_says("admin runtime started"))
        yield


def test_requests_are_enough_for_whatever_does_not_follow(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    job_id = pending(server, Task())
    with admin_runtime(server, tmp_path):
        for command in (["list"], ["get", job_id], ["explain", job_id], ["events", job_id]):
            told = as_reader(server, *command)
            assert (told.code, told.err) == (0, ""), command
        at = as_reader(server, "get", "--json", "--at", "0s", job_id)
        assert at.json["state"] == "pending"


def test_an_event_too_large_for_an_answer_is_read_from_the_log_by_whoever_may(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It fills a message of the server: around it, an answer has no room left."""
    job_id = pending(server, Task(text="x" * 1_047_300))
    with admin_runtime(server, tmp_path):
        (entry,) = as_reader(server, "events", "--json", job_id).json["entries"]
        assert entry["omitted"] == ["event"]
        assert "only the log contains it" in as_reader(server, "events", job_id).out
        whole = shell(*("jobs", "events", "--json", job_id, "--nats", url(server, "admin")))
        assert len(whole.json["entries"][0]["event"]["payload"]["text"]) == 1_047_300


def test_whoever_may_not_read_the_log_is_told_that_the_admin_runtime_is_away(
    server: EmbeddedServer,
) -> None:
    for command in ("get x", "events x", "logs x"):
        refused = as_reader(server, *command.split())
        assert refused.code == 4
        assert "start one with `trellis-jobs admin serve`" in refused.err
    for command in ("tail", "watch x"):
        refused = as_reader(server, *command.split())
        assert refused.code == 1
        assert "these credentials may not publish to $JS.API." in refused.err
