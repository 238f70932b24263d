"""What can be known of a job where no admin runtime runs, and where not even a server does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.cli.library import Book, library_service
from tests.cli.shell import Ended, shell
from tests.support.example_service import example_jobs
from tests.support.lab import until_state
from trellis_jobs import ActiveJob, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState

NOWHERE: Final = {"NATS_URL": "nats://127.0.0.1:1"}
INSTEAD: Final = "admin serve`. Reading the log instead.\n"


@dataclass(frozen=True)
class Alone:
    """A server on which `read` completed, and on which two queues have a job `twice`."""

    url: str
    read: str

    def shell(self, *arguments: str) -> Ended:
        return shell(*arguments, env={"NATS_URL": self.url})


@pytest.fixture(scope="module")
def alone() -> Iterator[Alone]:
    with EmbeddedServer.start() as server:
        yield Alone(server.url, asyncio.run(_live(server.url)))


async def _live(url: str) -> str:
    service = library_service()
    async with service.connect(url, workers=Workers(queues=["index"])):
        read = await service.jobs.index.create(Book(title="read"))
        await until_state(read, JobState.COMPLETED)
        await service.jobs.lend.create(Book(title="twice"), job_id="twice")
        await service.jobs.index.create(Book(title="twice"), job_id="twice")
    return read.id


def test_a_job_is_found_in_the_log_by_its_id_alone(alone: Alone) -> None:
    found = alone.shell("jobs", "get", "--json", alone.read)
    assert (found.code, found.json["state"], found.json["result"]) == (0, "completed", 2)
    assert [line["message"] for line in found.json["logs"]] == ["opening read"]
    assert found.err.endswith(INSTEAD)
    sheet = alone.shell("jobs", "get", alone.read).out
    assert sheet.splitlines()[0] == f"{alone.read}  library/index  completed"


FLAKY: Final = example_jobs(
    "flaky",
    str,
    str,
    work={"max_deliver": 2, "backoff": [0.01]},
)


def test_a_completed_job_is_not_explained_by_the_error_of_an_earlier_try(alone: Alone) -> None:
    service = Service(FLAKY)

    @service.jobs.work.handle
    async def work(active: ActiveJob[str]) -> str:
        if active.tries == 1:
            raise ConnectionError("the first try fails")
        return "done"

    async def run_one() -> str:
        async with service.connect(alone.url):
            ref = await service.jobs.work.create("x")
            await ref.wait(timeout=10)
            return ref.id

    shown = alone.shell("jobs", "get", asyncio.run(run_one()))
    assert "errors" in shown.out
    assert "why" not in shown.out


def test_events_and_log_lines_are_read_from_the_log(alone: Alone) -> None:
    events = alone.shell("jobs", "events", "--json", alone.read)
    kinds = [entry["event"]["eventType"] for entry in events.json["entries"]]
    assert (kinds[0], kinds[-1]) == ("created", "completed")
    assert events.json["entries"][-1]["state"] == "completed"
    assert events.err.endswith(INSTEAD)
    assert alone.shell("jobs", "logs", alone.read).out.endswith("opening read\n")


def test_a_job_that_is_not_in_the_log_is_not_found(alone: Alone) -> None:
    for command in ("get", "events", "logs", "watch"):
        missing = alone.shell("jobs", command, "nope")
        assert missing.code == 3, missing
        assert missing.err.startswith("error: job nope does not exist: ")
        assert missing.err.count("\n") == 1


def test_an_id_that_two_queues_have_must_be_said_with_its_queue(alone: Alone) -> None:
    refused = alone.shell("jobs", "get", "twice")
    assert refused.code == 1
    assert "use library/index/twice or library/lend/twice" in refused.err
    found = alone.shell("jobs", "get", "--json", "library/lend/twice")
    assert found.json["type"] == "lend"


def test_what_needs_an_admin_runtime_says_so(alone: Alone) -> None:
    for command in (["list"], ["list", "--all"], ["explain", alone.read]):
        refused = alone.shell("jobs", *command)
        assert (refused.code, refused.out) == (4, "")
        assert "start one with `trellis-jobs admin serve`" in refused.err


@pytest.mark.parametrize("command", ["list", "get x", "events x", "logs x", "tail", "watch x"])
def test_without_a_server_every_command_ends_with_its_own_code(command: str) -> None:
    refused = shell("jobs", *command.split(), env=NOWHERE)
    assert refused.code == 4
    assert refused.err.startswith("error: no NATS server answers at nats://127.0.0.1:1")


def test_a_server_without_a_log_says_what_is_missing() -> None:
    with EmbeddedServer.start() as server:
        for command in ("tail", "watch x", "get x"):
            refused = shell("jobs", *command.split(), env={"NATS_URL": server.url})
            assert refused.code == 1
            assert "stream JOBS" in refused.err
