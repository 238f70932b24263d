"""`trellis-jobs dlq list` and `dlq show`: what died, and of what."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from jobs_admin.api.views.dead_groups import DeadGroupView
from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.dlq.list import dead_table, group_table
from jobs_admin.cli.render.output import Output
from tests.cli.stage import Place, Stage, stage
from tests.support.lab import dead_jobs
from trellis_jobs.embedded import EmbeddedServer

ERRORS = (
    "503 for order 1",
    "503 for order 22",
    "no connection to 10.0.0.7:5432 although everybody else in this data centre has one",
)

ABSOLUTE = ("dlq", "list", "--group", "--absolute")


AGES = (
    *(timedelta(milliseconds=1), timedelta(seconds=59), timedelta(minutes=59, seconds=59)),
    *(timedelta(hours=23, minutes=59), timedelta(days=999, hours=23)),
)


@dataclass(frozen=True)
class Night:
    """`last` is the newest of those that died."""

    there: Stage
    ids: list[str]
    last: JobView


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        ids = made.dead(*ERRORS)
        yield Night(made, ids, made.job(ids[-1]))


def test_jobs_are_grouped_by_error_and_found_by_a_filter_that_is_text(night: Night) -> None:
    groups = night.there.shell("jobs", "errors", "state:dead", "--json").json
    assert [(each["jobs"], each["states"]) for each in groups["entries"]] == [
        (2, {"dead": 2}),
        (1, {"dead": 1}),
    ]
    shown = night.there.shell("jobs", "errors").out
    assert "503 for order *" in shown
    text = 'state:dead type:lab/single error:"order 22" since:1h'
    for command in (("jobs", "list", text), ("dlq", "list", text.removeprefix("state:dead "))):
        found = night.there.shell(*command, "--json").json
        assert [job["id"] for job in found["entries"]] == [night.ids[1]]


def test_what_operators_did_is_listed(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        [died] = there.dead("503")
        there.shell("dlq", "dismiss", died, "--reason", "not ours", "--by", "ann", "--yes")
        found = there.shell("audit", "list", "--by", "ann", "--since", "1h", "--json").json
        [entry] = found["entries"]
        assert (entry["verb"], entry["target"], entry["id"]) == ("dismiss", "job", died)
        shown = there.shell("audit", "list").out
        assert "dismiss" in shown
        assert there.shell("audit", "list", "--verb", "pause", "--json").json["entries"] == []


def test_the_release_that_broke_a_job_is_shown_and_found(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        there.dead("503", version="1.4.1")
        [broken] = there.dead("503", version="1.4.2")
        for command in (("dlq", "list"), ("jobs", "list")):
            found = there.shell(*command, "--app-version", "1.4.2", "--json").json
            assert [job["id"] for job in found["entries"]] == [broken]
        instance = there.job(broken).instance_id
        assert f"last worker  {instance}, version 1.4.2" in there.shell("jobs", "get", broken).out
        shown = there.shell("dlq", "show", broken).out
        assert f"last worker  {instance}" in shown
        assert "version      1.4.2" in shown


def test_dead_jobs_are_listed_newest_first_with_what_killed_them(night: Night) -> None:
    piped = night.there.shell("dlq", "list")
    assert piped.code == 0
    head, *rows, footer = piped.out.splitlines()
    assert head.split() == ["id", "queue", "died", "tries", "error"]
    assert [row.split()[0] for row in rows] == night.ids[::-1]
    assert f"RuntimeError: {ERRORS[2]}" in rows[0]
    assert footer == "3 of 3 dead jobs"
    for list_it in (("dlq", "list"), ABSOLUTE, ("services",)):
        lines = night.there.shell(*list_it).out.splitlines()
        assert lines == [line.rstrip() for line in lines], "nothing is filled up with blanks"
    told = night.there.shell("dlq", "list", "--error", "503", "--limit", "1", "--json").json
    assert (told["count"], [job["id"] for job in told["entries"]]) == (2, [night.ids[1]])


def test_on_a_terminal_ids_are_whole_and_lines_fit(night: Night) -> None:
    for list_it in (("dlq", "list"), ("dlq", "list", "--group"), ABSOLUTE):
        shown = night.there.at_terminal(*list_it, columns=60)
        assert shown.code == 0
        assert night.ids[2] in shown.plain
        assert max(map(len, shown.plain.splitlines())) <= 60


@pytest.mark.parametrize("output", [Output(), Output(absolute=True)], ids=["ago", "absolute"])
@pytest.mark.parametrize("room", [60, 80, 130])
@pytest.mark.parametrize("age", AGES, ids=str)
def test_lines_fit_however_old_the_jobs_are(
    night: Night, age: timedelta, room: int, output: Output
) -> None:
    job, now = night.last, night.last.updated_at + age
    group = DeadGroupView(
        service=job.service,
        type=job.type,
        error=job.last_error,
        jobs=12_345,
        oldest_at=job.updated_at - AGES[-1],
        newest_at=job.updated_at,
        example_id=job.id,
    )
    for table, lines_each in (
        (dead_table([job], output, now, room), 1),
        (group_table([group], output, now, room), 2),
    ):
        drawn = io.StringIO()
        Console(file=drawn, width=room).print(table)
        lines = drawn.getvalue().splitlines()
        assert len(lines) == 1 + lines_each, "nothing is folded"
        assert max(map(len, lines)) <= room
        assert job.id in drawn.getvalue()


def test_what_they_died_of_is_told_by_how_many_did(night: Night) -> None:
    told = night.there.shell("dlq", "list", "--group", "--json").json
    assert (told["count"], told["jobs"]) == (2, 3)
    groups = [(group["jobs"], group["error"], group["exampleId"]) for group in told["entries"]]
    assert groups[0] == (2, "RuntimeError: 503 for order *", night.ids[1])
    shown = night.there.shell("dlq", "list", "--group").out
    assert "2 of 2 groups, 3 dead jobs in all" in shown


def test_one_is_shown_with_its_errors_and_what_to_do(night: Night) -> None:
    shown = night.there.at_terminal("dlq", "show", night.ids[0], columns=130).plain
    assert "503 for order 1" in shown
    assert "Traceback (most recent call last):" in shown
    assert '"text":"503 for order 1"' in shown
    assert f"trellis-jobs dlq replay {night.ids[0]}" in shown
    told = night.there.shell("dlq", "show", f"lab/single/{night.ids[0]}", "--json").json
    assert told["job"]["errors"][0]["message"] == "503 for order 1"
    assert told["explanation"]["because"] == "out-of-tries"


def test_one_is_read_from_the_log_where_no_admin_runtime_runs() -> None:
    with EmbeddedServer.start() as server:
        [dead] = asyncio.run(dead_jobs(server.url, "503 for order 1"))
        alone = Place(server.url)
        shown = alone.shell("dlq", "show", dead)
        assert shown.code == 0, shown.err
        assert "503 for order 1" in shown.out
        assert f"trellis-jobs dlq replay {dead}" in shown.out
        assert "Reading the log instead." in shown.err
        assert "explanation" not in alone.shell("dlq", "show", dead, "--json").json


def test_one_that_is_not_dead_is_said_not_to_be(night: Night) -> None:
    [job] = night.there.dead("for another time")
    assert night.there.shell("dlq", "dismiss", job, "--yes").code == 0
    shown = night.there.shell("dlq", "show", job)
    assert shown.code == 0
    assert "This job is not dead." in shown.out
    assert "dlq replay" not in shown.out
    assert night.there.shell("dlq", "show", "nope").code == 3
