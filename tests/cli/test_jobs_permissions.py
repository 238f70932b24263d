"""An operator who may only ask the admin runtime sees what it can tell, and why not the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from tests.admin.test_operator_rights import CONFIG
from tests.cli.command import running
from tests.cli.shell import Ended, shell
from tests.support.example_service import Task
from tests.support.lab import probe, producer
from trellis_jobs.embedded import HOST, EmbeddedServer

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


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
        asyncio.run(runtime.until_prints("admin runtime started"))
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


def fill_a_message(server: EmbeddedServer, job_id: str) -> int:
    """Writes the first event of a job as another runtime does, without headers.

    Returns the length of the text in its payload.
    """

    async def write() -> int:
        async with probe(url(server, "admin")) as raw:
            event = {
                "jobId": job_id,
                "service": "lab",
                "jobType": "work",
                "eventType": "created",
                "state": "pending",
                "tries": 0,
                "timestamp": "2026-05-01T00:00:00Z",
                "context": {"requestId": "r", "traceId": "t", "traceparent": TRACEPARENT},
                "payload": {"text": ""},
            }
            room = raw.connection.max_payload - len(orjson.dumps(event))
            event["payload"] = {"text": "x" * room}
            await raw.connection.request(
                f"trellis.jobs.lab.work.{job_id}.created", orjson.dumps(event)
            )
            return room

    return asyncio.run(write())


def test_an_event_too_large_for_an_answer_is_read_from_the_log_by_a_user_who_may(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It fills a message of the server, so it does not fit into a reply with anything else."""
    pending(server, Task())
    length = fill_a_message(server, "vast")
    with admin_runtime(server, tmp_path):
        (entry,) = as_reader(server, "events", "--json", "vast").json["entries"]
        assert entry["omitted"] == ["payload"]
        assert "only the log contains it" in as_reader(server, "events", "vast").err
        whole = shell(*("jobs", "events", "--json", "vast", "--nats", url(server, "admin")))
        assert len(whole.json["entries"][0]["event"]["payload"]["text"]) == length


def test_a_user_who_may_not_read_the_log_is_told_that_the_admin_runtime_is_away(
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
