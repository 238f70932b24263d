"""Row by row, a projection is compared with what the log says; what left the log is no fault."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs_admin.api.errors import ProjectionMissing, ProjectionOutdated
from jobs_admin.projection.files import FileDamaged
from jobs_admin.projection.rebuild import rebuild
from jobs_admin.projection.verify import Findings, verify
from tests.admin.made_log import of, rows_of
from tests.admin.projection_lab import LogLab, log_lab, projecting, until_at
from tests.cli.command import running
from tests.docs.json_fields import documented
from tests.given import created, dead, retried, started
from tests.support.fork_server import ROOT
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.log.feed import LogReplaced
from trellis_jobs.jetstream.log.purge import purge_job
from trellis_jobs.model.identity import JobAddress


@pytest.fixture
async def lab(server: EmbeddedServer) -> AsyncIterator[LogLab]:
    async with log_lab(server.url) as made:
        yield made


@pytest.fixture
async def path(lab: LogLab, tmp_path: Path) -> Path:
    """A projection of some jobs."""
    made = tmp_path / "jobs.sqlite"
    async with projecting(lab, made) as projector:
        await lab.write_jobs(30)
        await until_at(projector, await lab.end())
    return made


def change(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement, values)
        database.commit()


def found(verdict: Findings) -> dict[str, tuple[int, int]]:
    """By table: how many rows differ, and how many are about what left the log."""
    return {
        table.table: (table.different, table.gone)
        for table in verdict.tables
        if table.different or table.gone
    }


async def test_a_projection_of_the_log_is_equal(lab: LogLab, path: Path) -> None:
    verdict = await verify(path, lab.feed, utc_now())
    assert verdict.is_equal
    assert found(verdict) == {}
    assert {table.table: table.rows for table in verdict.tables}["jobs_projection"] == 30
    assert verdict.position == await lab.end()


async def test_it_may_be_filled_meanwhile(lab: LogLab, path: Path) -> None:
    async with projecting(lab, path) as projector:
        await lab.write_jobs(30)
        assert (await verify(path, lab.feed, utc_now())).is_equal
        await until_at(projector, await lab.end())
        assert (await verify(path, lab.feed, utc_now())).is_equal


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE jobs_projection SET state = 'dead' WHERE id = 'job-3'", "jobs_projection"),
        ("UPDATE jobs_projection SET started_at = NULL WHERE id = 'job-3'", "jobs_projection"),
        ("DELETE FROM job_logs WHERE number = 1", "job_logs"),
        ("INSERT INTO job_values VALUES (7, 1)", "job_values"),
        ("UPDATE job_activity SET events = events - 1", "job_activity"),
        ("UPDATE state_changes SET entered = entered - 1", "state_changes"),
        ("DELETE FROM state_changes WHERE state = 'active'", "state_changes"),
        ("UPDATE attempt_durations SET attempts = attempts - 1", "attempt_durations"),
        ("UPDATE job_counts SET jobs = jobs + 1", "job_counts"),
        ("UPDATE change_counts SET slot = slot + 1", "change_counts"),
        ("UPDATE key_counts SET active = active + 1", "key_counts"),
        ("DELETE FROM error_counts", "error_counts"),
        (
            "INSERT INTO operator_actions VALUES "
            "(1, 1, 'cancel', 'shop', 'charge', 'x', 'ann', NULL, NULL)",
            "operator_actions",
        ),
        ("UPDATE ignored_events SET reason = ''", "ignored_events"),
        ("DELETE FROM undecodable_messages", "undecodable_messages"),
        ("UPDATE worker_presence_projection SET seen_at = 1", "worker_presence_projection"),
    ],
)
async def test_any_row_that_is_not_as_it_should_be_is_found(
    lab: LogLab, path: Path, statement: str, table: str
) -> None:
    change(path, statement)
    verdict = await verify(path, lab.feed, utc_now())
    assert not verdict.is_equal
    assert table in found(verdict)
    [compared] = [each for each in verdict.tables if each.table == table]
    assert compared.examples
    assert compared.examples[0].changed()


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE group_counts SET jobs = jobs + 1", "group_counts"),
        ("UPDATE group_value_counts SET jobs = jobs + 1", "group_value_counts"),
        ("INSERT INTO group_version_counts VALUES (7, 'dead', '1.0', 1)", "group_version_counts"),
        ("DELETE FROM group_change_counts WHERE minutes = 60", "group_change_counts"),
    ],
)
async def test_counts_of_dead_jobs_that_are_not_as_they_should_be_are_found(
    lab: LogLab, tmp_path: Path, statement: str, table: str
) -> None:
    path = tmp_path / "jobs.sqlite"
    lab.scribe.write(created(), started(), dead())
    await lab.send()
    await lab.end()
    await rebuild(path, lab.feed)
    assert (await verify(path, lab.feed, utc_now())).is_equal
    change(path, statement)
    assert table in found(await verify(path, lab.feed, utc_now()))


async def test_a_job_that_the_log_does_not_know_is_a_fault_unless_it_left_the_log(
    lab: LogLab, path: Path
) -> None:
    gone = JobAddress("s0", "t0", "job-0")
    purged = await purge_job(lab.connection, gone, up_to=await lab.end())
    assert purged
    verdict = await verify(path, lab.feed, utc_now())
    assert found(verdict)["jobs_projection"] == (0, 1)
    assert found(verdict)["ignored_events"] == (0, 1)
    change(path, "UPDATE jobs_projection SET job = 12 WHERE id = 'job-0'")
    assert found(await verify(path, lab.feed, utc_now()))["jobs_projection"][0] > 0


async def test_a_job_whose_earlier_runs_were_purged_is_no_fault(lab: LogLab, path: Path) -> None:
    job = JobAddress("s1", "t1", "job-1")
    end = await lab.end()
    async with projecting(lab, path) as projector:
        lab.scribe.write(*of(job, retried()))
        await lab.send()
        await until_at(projector, await lab.end())
    await purge_job(lab.connection, job, up_to=end)
    verdict = await verify(path, lab.feed, utc_now())
    [jobs] = [table for table in verdict.tables if table.table == "jobs_projection"]
    assert (jobs.different, jobs.gone) == (0, 2)
    # The log no longer shows that the job left the state `failed`, a moment ago.
    assert found(verdict)["state_changes"][1] > 0


async def test_heartbeats_that_expired_are_no_fault(lab: LogLab, path: Path) -> None:
    await api.request(lab.connection, "STREAM.PURGE.JOBS", {"filter": "trellis.jobs.workers.>"})
    verdict = await verify(path, lab.feed, utc_now())
    assert verdict.is_equal
    assert found(verdict)["worker_presence_projection"][1] > 0


async def test_what_cannot_be_compared_is_said(lab: LogLab, path: Path) -> None:
    with pytest.raises(ProjectionMissing):
        await verify(path.with_name("nothing.sqlite"), lab.feed, utc_now())
    change(path, "DROP INDEX jobs_by_move")
    with pytest.raises(FileDamaged, match="missing, or changed by another program: jobs_by_move"):
        await verify(path, lab.feed, utc_now())
    change(path, "CREATE INDEX jobs_by_move ON jobs_projection (state, moved_at)")
    with pytest.raises(FileDamaged, match="jobs_by_move"):
        await verify(path, lab.feed, utc_now())
    await rebuild(path, lab.feed)
    change(path, "UPDATE projection_metadata SET value = 'x' WHERE name = 'stream_created'")
    with pytest.raises(LogReplaced):
        await verify(path, lab.feed, utc_now())
    change(path, "UPDATE projection_metadata SET value = '0' WHERE name = 'schema_version'")
    with pytest.raises(ProjectionOutdated):
        await verify(path, lab.feed, utc_now())


async def ask(url: str, path: Path, *arguments: str) -> tuple[int, str]:
    """What a command ends with, and says."""
    wanted = ("projection", *arguments, "--nats", url, "--db", str(path))
    with running(path.parent, *wanted) as command:
        return await command.until_exit(), command.printed


def told(printed: str) -> dict[str, Any]:
    """The JSON, before what is said on stderr."""
    found: dict[str, Any]
    found, _ = json.JSONDecoder().raw_decode(printed)
    return found


def fields_of(verdict: dict[str, Any]) -> set[str]:
    """Of the verdict, its tables and an example of what differs."""
    [jobs] = [each for each in verdict["tables"] if each["table"] == "jobs_projection"]
    return {*verdict, *jobs, *jobs["examples"][0]}


async def test_the_commands_tell_scripts_how_it_is(
    server: EmbeddedServer, lab: LogLab, path: Path
) -> None:
    code, printed = await ask(server.url, path, "status", "--json")
    assert code == 0
    status = orjson.loads(printed)
    assert (status["fits"], status["jobs"], status["behind"]) == (True, 30, 0)
    assert status["undecodable"] == 3
    code, printed = await ask(server.url, path.with_name("elsewhere.sqlite"), "status", "--json")
    assert code == 1
    assert status.keys() | told(printed).keys() == documented("projection status")
    code, printed = await ask(server.url, path.with_name("elsewhere.sqlite"), "status")
    assert code == 1
    assert "fits           no\n" in printed
    assert "name it with --db" in printed

    assert (await ask(server.url, path, "verify"))[0] == 0
    change(path, "UPDATE jobs_projection SET state = 'dead' WHERE id = 'job-3'")
    code, printed = await ask(server.url, path, "verify", "--json")
    assert code == 1
    assert "trellis-jobs projection rebuild" in printed
    assert fields_of(told(printed)) == documented("projection verify")

    code, printed = await ask(server.url, path, "rebuild", "--json")
    assert (code, orjson.loads(printed)["position"]) == (0, await lab.end())
    assert told(printed).keys() == documented("projection rebuild")
    assert (await ask(server.url, path, "verify"))[0] == 0


async def test_a_table_that_was_dropped_is_reported_and_made_again(
    server: EmbeddedServer, lab: LogLab, path: Path
) -> None:
    change(path, "DROP TABLE error_counts")
    for command in ("status", "verify"):
        code, printed = await ask(server.url, path, command)
        assert code == 1
        assert "missing, or changed by another program: error_counts" in printed
        assert "Traceback" not in printed
    assert (await ask(server.url, path, "rebuild"))[0] == 0
    assert (await ask(server.url, path, "verify"))[0] == 0


@pytest.mark.parametrize("command", ["rebuild", "verify"])
async def test_a_disk_that_is_full_is_told_and_costs_nothing(
    server: EmbeddedServer, path: Path, command: str
) -> None:
    """No file of the command may become larger than what the second one needs."""
    asked = ["projection", command, "--nats", server.url, "--db", str(path)]
    script = 'ulimit -f 48; exec "$@"'
    argv = ["bash", "-c", script, "bash", sys.executable, "-m", "jobs_admin.cli", *asked]
    before = rows_of(path)
    done = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE, cwd=ROOT)
    printed = b"".join(await done.communicate()).decode()
    assert done.returncode == 1
    assert "as much free disk space" in printed
    assert "Traceback" not in printed
    assert rows_of(path) == before
    assert [each.name for each in path.parent.iterdir() if "ing" in each.suffix] == []


async def test_status_of_what_does_not_fit_ends_with_one_and_says_why(
    server: EmbeddedServer, lab: LogLab, path: Path
) -> None:
    code, printed = await ask(server.url, path.with_name("nothing.sqlite"), "status")
    assert code == 1
    assert "there is no file" in printed
    code, printed = await ask("nats://127.0.0.1:1", path, "status")
    assert code == 4
