"""`jobs tail`, `watch` and `logs -f`: straight from the log, until there is an end."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
import typer

from jobs_admin.cli.jobs.tail import Pattern
from tests.cli.command import COMMAND, Command, environment, running
from tests.cli.library import Book, LibraryJobs, library_service
from tests.cli.shell import Ended, at_terminal, shell
from tests.cli.terminal import on_a_terminal
from tests.support.facts import until
from tests.support.fork_server import ROOT
from tests.support.lab import until_state
from trellis_jobs import JobRef, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


@pytest.fixture
async def service(server: EmbeddedServer) -> AsyncIterator[Service[LibraryJobs]]:
    made = library_service()
    async with made.connect(server.url, workers=False):
        yield made


@contextmanager
def jobs(server: EmbeddedServer, folder: Path, *command: str) -> Iterator[Command]:
    with running(folder, "jobs", *command, env={"NATS_URL": server.url}) as made:
        yield made


async def work_until(server: EmbeddedServer, ref: JobRef[int], state: JobState) -> None:
    async with library_service().connect(server.url, workers=Workers(queues=["index"])):
        await until_state(ref, state)


def to_end(server: EmbeddedServer, *command: str) -> Ended:
    return shell("jobs", *command, env={"NATS_URL": server.url})


async def test_a_tail_tells_what_happens_from_then_on_until_it_is_interrupted(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    before = await service.jobs.lend.create(Book(title="before"))
    with jobs(server, tmp_path, "tail") as tail:
        after = []

        async def is_told() -> bool:
            after.append(await service.jobs.lend.create(Book(title="after")))
            return after[-1].id in tail.printed

        await until(is_told, "it tells of a job")
        assert before.id not in tail.printed
        assert '{"title": "after", "shelf": "A"}' in tail.printed, "in a pipe nothing is cut"
        tail.send(signal.SIGINT)
        assert await tail.until_exit() == 0, tail.printed
        assert "Aborted" not in tail.printed
        assert "Traceback" not in tail.printed


async def test_a_tail_outlives_its_server(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    before = await service.jobs.lend.create(Book(title="before"))
    with jobs(server, tmp_path, "tail", "--since", "10m") as tail:
        await tail.until_prints(before.id)
        server.kill()
        server.restart()
        after = await service.jobs.lend.create(Book(title="after"))
        await tail.until_prints(after.id)
        assert tail.printed.count(before.id) == 1, "nothing is told twice"
        assert "Traceback" not in tail.printed


async def test_a_tail_of_the_past_with_a_limit_shows_the_most_recent_events(
    server: EmbeddedServer, service: Service[LibraryJobs]
) -> None:
    """It showed the first events after --since, not the last."""
    refs = [await service.jobs.lend.create(Book(title=title)) for title in ("one", "two", "three")]
    await refs[1].cancel("not needed")
    told = to_end(server, "tail", "--since", "10m", "--limit", "2", "--json")
    lines = [orjson.loads(line) for line in told.out.splitlines()]
    assert [line["event"]["jobId"] for line in lines] == [refs[2].id, refs[1].id]
    assert all("storedAt" in line and "state" not in line for line in lines)
    only = to_end(server, "tail", "library/*/cancelled", "--since", "10m", "--limit", "1")
    assert only.out.split()[1:3] == ["cancelled", refs[1].id]
    created = to_end(server, "tail", "library/*/created", "--since", "10m", "--limit", "2")
    assert [line.split()[2] for line in created.out.splitlines()] == [refs[1].id, refs[2].id]
    narrow = at_terminal(
        *("jobs", "tail", "--since", "10m", "--limit", "1"), env={"NATS_URL": server.url}
    )
    (line,) = narrow.plain.splitlines()
    assert refs[1].id in line
    assert len(line) <= 80


async def test_a_tail_with_a_limit_waits_for_what_is_missing(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    before = await service.jobs.lend.create(Book(title="before"))
    with jobs(server, tmp_path, "tail", "--since", "10m", "--limit", "2") as tail:
        await tail.until_prints(before.id)
        after = await service.jobs.lend.create(Book(title="after"))
        assert await tail.until_exit() == 0
        assert [line.split()[2] for line in tail.printed.splitlines()] == [before.id, after.id]


async def test_a_tail_whose_reader_has_had_enough_ends_quietly(
    server: EmbeddedServer, service: Service[LibraryJobs]
) -> None:
    for _ in range(3):
        await service.jobs.lend.create(Book(title="read"))
    tail = _in_a_pipe(server, "jobs", "tail", "--since", "10m")
    assert tail.stdout is not None
    assert tail.stderr is not None
    tail.stdout.readline()
    tail.stdout.close()

    async def has_ended() -> bool:
        await service.jobs.lend.create(Book(title="unread"))
        return tail.poll() is not None

    await until(has_ended, "it ends")
    assert (tail.returncode, tail.stderr.read()) == (0, b"")
    tail.stderr.close()


def _in_a_pipe(server: EmbeddedServer, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (COMMAND, *command),
        cwd=ROOT,
        env=environment({"NATS_URL": server.url}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("*", Pattern()),
        ("shop", Pattern("shop")),
        ("shop/greet", Pattern("shop", "greet")),
        ("shop/greet/dead", Pattern("shop", "greet", EventKind.DEAD)),
        ("*/*/failed", Pattern(None, None, EventKind.FAILED)),
        ("*/greet", Pattern(None, "greet")),
    ],
)
def test_patterns_say_which_events_are_meant(text: str, meant: Pattern) -> None:
    assert Pattern.parse(text) == meant


@pytest.mark.parametrize("text", ["a/b/c", "a/b/dead/e", "a.b", "workers", "", "a//dead"])
def test_a_pattern_that_means_nothing_is_refused_with_what_one_is(text: str) -> None:
    with pytest.raises(
        typer.BadParameter, match=r"service/type/event|is not an event; events: scheduled, "
    ):
        Pattern.parse(text)


def test_a_command_line_with_such_a_pattern_ends_with_2() -> None:
    assert shell("jobs", "tail", "a.b").code == 2


async def test_watching_a_job_ends_with_it_and_its_end_is_the_exit_code(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    read = await service.jobs.index.create(Book(title="read"))
    with jobs(server, tmp_path, "watch", read.id) as watch:
        await watch.until_prints("created")
        await work_until(server, read, JobState.COMPLETED)
        assert await watch.until_exit() == 0, watch.printed
    *events, result = watch.printed.splitlines()
    kinds = [line.split()[1] for line in events]
    assert result == "2"
    assert (kinds[:2], kinds[-1]) == (["created", "started"], "completed")
    cancelled = await service.jobs.index.create(Book(title="cancelled"))
    await cancelled.cancel()
    assert to_end(server, "watch", cancelled.id).code == 1


async def test_a_job_that_was_retried_is_watched_to_its_newest_end(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    torn = await service.jobs.index.create(Book(title="torn"))
    await work_until(server, torn, JobState.DEAD)
    serve = ("admin", "serve", "--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"))
    with running(tmp_path, *serve) as admin:
        await admin.until_prints("admin runtime started")
        assert to_end(server, "retry", torn.id, "--yes").code == 0
    late = to_end(server, "watch", "--timeout", "4", "--json", torn.id)
    assert late.code == 4
    assert "did not end within 4 s" in late.err
    states = [orjson.loads(line)["state"] for line in late.out.splitlines()]
    assert states[-2:] == ["dead", "pending"]


async def test_a_terminal_shows_a_bar_and_the_result(
    server: EmbeddedServer, service: Service[LibraryJobs]
) -> None:
    read = await service.jobs.index.create(Book(title="read"))
    command = ("jobs", "watch", read.id, "--nats", server.url)
    with on_a_terminal(*command, columns=80) as (process, screen):
        await until(lambda: "pending" in screen.plain_text, "it shows the job")
        await work_until(server, read, JobState.COMPLETED)
        await until(lambda: process.poll() is not None, "it ends")
        await screen.until_closed()
        assert process.returncode == 0
        assert "2/2 pages" in screen.plain_text
        assert f"{read.id}  library/index  completed  try 1/2" in screen.plain_text
        assert "━━━" in screen.plain_text


async def test_a_watch_that_is_interrupted_does_not_claim_an_end(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    lent = await service.jobs.lend.create(Book(title="lent"))
    with jobs(server, tmp_path, "watch", lent.id) as watch:
        await watch.until_prints("created")
        watch.send(signal.SIGINT)
        assert await watch.until_exit() == 130


async def test_log_lines_are_followed_until_the_job_is_over(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    torn = await service.jobs.index.create(Book(title="torn"))
    with jobs(server, tmp_path, "logs", "-f", torn.id) as logs:
        await work_until(server, torn, JobState.DEAD)
        assert await logs.until_exit() == 0, logs.printed
    assert logs.printed.count("opening torn") == 2


async def test_a_list_is_drawn_again_while_jobs_change(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    serve = ("admin", "serve", "--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"))
    with running(tmp_path, *serve) as admin:
        await admin.until_prints("admin runtime started")
        command = ("jobs", "list", "--watch", "--nats", server.url)
        with on_a_terminal(*command, columns=80) as (process, screen):
            await until(lambda: "0 of 0 jobs" in screen.plain_text, "it shows that there are none")
            lent = await service.jobs.lend.create(Book(title="lent"))
            await until(lambda: lent.id in screen.plain_text, "it shows the job")
            await lent.cancel()
            await until(lambda: "cancelled" in screen.plain_text, "it shows the end")
            process.send_signal(signal.SIGINT)
            await until(lambda: process.poll() is not None, "it ends")
            assert process.returncode == 0


async def test_an_outage_is_told_with_its_cause_and_its_end(
    server: EmbeddedServer, service: Service[LibraryJobs], tmp_path: Path
) -> None:
    with jobs(server, tmp_path, "tail") as tail:

        async def is_told() -> bool:
            return (await service.jobs.lend.create(Book(title="x"))).id in tail.printed

        await until(is_told, "it tells of a job")
        server.restart()
        await tail.until_prints("reconnected")
        lost = next(line for line in tail.printed.splitlines() if "disconnected" in line)
    assert "warning" in lost
    assert re.search(r"disconnected from nats://\S+: .+; reconnecting$", lost)
