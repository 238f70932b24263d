"""`trellis-jobs admin serve`, run for real: what it says, and how it ends."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.admin.retention_option import DEFAULT_RETENTION
from jobs_admin.retention_policy import parse, standard
from tests.cli.command import Command, environment, running
from tests.cli.shell import run_to_end, shell
from tests.support.example_service import Task, TaskJobs
from tests.support.facts import until
from tests.support.lab import producer, until_state, worker
from trellis_jobs.contract.topology import LOG
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState

STARTED = "admin runtime started"
SERVE = ("admin", "serve")


@pytest.fixture
async def jobs(server: EmbeddedServer) -> AsyncIterator[TaskJobs]:
    async with producer(server.url) as producing:
        yield producing


def refused(*arguments: str) -> tuple[int, str]:
    ended = run_to_end(*SERVE, *arguments, env=environment())
    assert ended.out == ""
    return ended.code, ended.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_answers_until_a_signal_and_ends_with_0(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path, number: signal.Signals
) -> None:
    db = tmp_path / "jobs.sqlite"
    with running(tmp_path, *SERVE, "--nats", server.url, "--db", str(db)) as admin:
        await admin.until_prints(STARTED)
        ref = await jobs.work.create(Task())
        async with AdminClient.connect(server.url) as client:
            assert (await client.cancel(ref.id)).job.state is JobState.CANCELLED
        admin.send(number)
        assert await admin.until_exit() == 0, admin.printed
        assert "admin runtime stopped" in admin.printed
        assert "Traceback" not in admin.printed, admin.printed
    assert db.exists()
    assert not db.with_name("jobs.sqlite-wal").exists(), "all that was written is in the file"


async def test_after_kill_9_it_goes_on_where_it_was(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path
) -> None:
    command = (*SERVE, "--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"))
    async with AdminClient.connect(server.url) as client:
        with running(tmp_path, *command) as admin:
            await admin.until_prints(STARTED)
            first = await jobs.single.create(Task(do="always fail"))
            assert (await client.get(first.id)).state is JobState.PENDING
            admin.send(signal.SIGKILL)
            assert await admin.until_exit() == -signal.SIGKILL
        async with worker(server.url, "single"):
            await until_state(first, JobState.DEAD)
        second = await jobs.work.create(Task())
        with running(tmp_path, *command) as admin:
            await admin.until_prints(STARTED)
            assert "rebuilt" not in admin.printed
            found = await client.get(first.id, min_seq=4)
            assert (found.state, found.tries) == (JobState.DEAD, 1)
            assert (await client.get(second.id)).state is JobState.PENDING
            assert (await client.list_jobs()).count == 2
            assert (await client.stats()).states == {"dead": 1, "pending": 1}


async def test_it_serves_probes(server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path) -> None:
    command = (*SERVE, "--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"))
    with running(tmp_path, *command, "--health-port", "0") as admin:
        await admin.until_prints("health_port=")
        port = int(re.findall(r"health_port=(\d+)", admin.printed)[0])
        for path in ("live", "ready"):
            assert await asyncio.to_thread(_status, port, path) == "ok"


def _status(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
        assert answer.status == 200
        return str(json.load(answer)["status"])


async def test_every_flag_has_an_environment_twin(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path
) -> None:
    db = tmp_path / "elsewhere" / "jobs.sqlite"
    twins = {
        "NATS_URL": server.url,
        "TRELLIS_JOBS_DB_PATH": str(db),
        "TRELLIS_JOBS_MODE": "full",
        "TRELLIS_JOBS_HEALTH_PORT": "0",
        "TRELLIS_JOBS_PROVISION": "1",
        "TRELLIS_JOBS_RETENTION": "keep-all",
        "TRELLIS_JOBS_ARCHIVE": str(tmp_path / "archive"),
        "TRELLIS_JOBS_JANITOR_INTERVAL": "1.5",
        "TRELLIS_JOBS_RECONCILE_INTERVAL": "2",
        "TRELLIS_JOBS_RETENTION_INTERVAL": "60",
        "TRELLIS_JOBS_LOG_FORMAT": "json",
        "TRELLIS_JOBS_LOG_LEVEL": "info",
    }
    with running(tmp_path, *SERVE, env=twins) as admin:
        await admin.until_prints(STARTED)
        line = _line_of(admin, STARTED)
    assert (line["db"], line["mode"], line["nats"]) == (str(db), "full", server.url)
    assert (line["retention"], line["archive"]) == ("keep-all", str(tmp_path / "archive"))
    assert line["health_port"]
    assert db.exists()


def _line_of(admin: Command, message: str) -> dict[str, object]:
    lines = [json.loads(line) for line in admin.printed.splitlines()]
    found = next(line for line in lines if line["message"] == message)
    assert isinstance(found, dict)
    return found


async def test_one_that_only_answers_shares_the_file_of_another(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path
) -> None:
    command = (*SERVE, "--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"))
    (tmp_path / "other").mkdir()
    with running(tmp_path, *command) as full:
        await full.until_prints(STARTED)
        with running(tmp_path / "other", *command, "--mode", "rpc-only") as other:
            await other.until_prints("mode=rpc-only")
            refs = [await jobs.work.create(Task()) for _ in range(10)]
            async with AdminClient.connect(server.url) as client:
                for ref in refs:
                    changed = await client.cancel(ref.id)
                    found = await client.get(ref.id, min_seq=changed.seq)
                    assert found.state is JobState.CANCELLED
            other.send(signal.SIGTERM)
            assert await other.until_exit() == 0, other.printed


async def test_a_file_of_another_process_is_left_alone(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path
) -> None:
    db = str(tmp_path / "jobs.sqlite")
    with running(tmp_path, *SERVE, "--nats", server.url, "--db", db) as first:
        await first.until_prints(STARTED)
        code, printed = refused("--nats", server.url, "--db", db)
        assert code == 1
        assert printed.startswith(f"error: another process writes the projection {db}: ")
        assert printed.count("\n") == 1
        assert first.process.poll() is None


async def test_it_starts_again_when_its_server_was_away(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path
) -> None:
    db = str(tmp_path / "jobs.sqlite")
    with running(tmp_path, *SERVE, "--nats", server.url, "--db", db) as admin:
        await admin.until_prints(STARTED)
        server.kill()
        await admin.until_prints(f"disconnected from {server.url}: ")
        await admin.until_prints("; reconnecting")
        server.restart()
        await admin.until_prints(f"reconnected to {server.url}")
        ref = await jobs.work.create(Task())
        async with AdminClient.connect(server.url) as client:

            async def answered() -> bool:
                return (await client.get(ref.id)).state is JobState.PENDING

            await until(answered, "it answers again")
        server.kill()
        admin.send(signal.SIGTERM)
        assert await admin.until_exit() == 0, admin.printed
        assert "Traceback" not in admin.printed, admin.printed


def test_a_server_that_does_not_answer_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    nowhere = ("--nats", "nats://127.0.0.1:1", "--connect-timeout", "0")
    code, printed = refused(*nowhere, "--db", str(tmp_path / "jobs.sqlite"))
    assert code == 4
    assert printed.startswith("error: no NATS server answers at nats://127.0.0.1:1")
    assert printed.count("\n") == 1


def test_missing_streams_say_what_to_run(server: EmbeddedServer, tmp_path: Path) -> None:
    code, printed = refused("--nats", server.url, "--db", str(tmp_path / "jobs.sqlite"))
    assert code == 1
    assert "JOBS_WORK" in printed
    assert "run `trellis-jobs admin serve --provision`" in printed
    assert "Traceback" not in printed


async def test_streams_that_we_must_not_change_are_described(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    connection = await Connection.open(server.url, name="an operator with other ideas")
    wrong = {"name": LOG, "subjects": [subjects.ALL_EVENTS], "retention": "interest"}
    await api.request(connection, f"STREAM.CREATE.{LOG}", wrong)
    await connection.close()
    db = str(tmp_path / "jobs.sqlite")
    code, printed = refused("--nats", server.url, "--db", db, "--provision")
    assert code == 1
    assert "retention should be 'limits', is 'interest'" in printed


def test_without_a_projection_nothing_can_be_answered_from_it(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path
) -> None:
    db = str(tmp_path / "jobs.sqlite")
    code, printed = refused("--nats", server.url, "--db", db, "--mode", "rpc-only")
    assert code == 1
    assert f"error: there is no projection at {db}: start" in printed


def test_a_database_of_another_program_is_not_touched(
    server: EmbeddedServer, jobs: TaskJobs, tmp_path: Path
) -> None:
    db = tmp_path / "photos.sqlite"
    with sqlite3.connect(db) as photos:
        photos.execute("CREATE TABLE photos (name TEXT)")
    photos.close()
    before = db.read_bytes()
    code, printed = refused("--nats", server.url, "--db", str(db))
    assert code == 1
    assert f"error: {db} cannot be used as a projection" in printed
    assert db.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("--mode", "half"),
        ("--health-port", "70000"),
        ("--retention", "completed=soon"),
        ("--retention", "pending=7d"),
        ("--retention", "completed=5m"),
        ("--janitor-interval", "0"),
        ("--log-format", "xml"),
        ("--creds", "nosuch.creds"),
        ("--db", "/tmp"),  # noqa: S108
        ("--nosuch",),
        ("please",),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...]) -> None:
    code, printed = refused(*arguments)
    assert code == 2
    assert "Traceback" not in printed


def test_help_names_every_flag_and_its_environment_twin() -> None:
    told = shell(*SERVE, "--help", env={"COLUMNS": "200", "TERM": "dumb"}).out
    for flag in ("--nats", "--creds", "--db", "--mode", "--health-port", "--retention"):
        assert flag in told
    flags = set(re.findall(r"--[a-z-]+", told)) - {"--help"}
    assert len(set(re.findall(r"(?:TRELLIS_JOBS|NATS)_[A-Z_]+", told))) == len(flags)


def test_the_command_keeps_jobs_as_long_as_the_runtime_does_by_itself() -> None:
    assert parse(DEFAULT_RETENTION) == standard()
