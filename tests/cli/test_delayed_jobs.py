"""Delayed jobs on the command line: created, moved, released, and shown with their time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer
from rich.console import Console

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.jobs import JobView
from jobs_admin.api.views.queues import QueueView
from jobs_admin.cli.bulk.verbs import RUN_NOW, reschedule_to
from jobs_admin.cli.dev.screen import Frame, draw
from jobs_admin.cli.dev.state import DevState
from jobs_admin.cli.jobs.timeline import render_timeline
from jobs_admin.cli.jobs.watch import job_frame
from jobs_admin.cli.render.job_table import job_table
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.render.states import state_until
from jobs_admin.cli.render.times import moment
from jobs_admin.cli.run_time import RunTimeOptions
from jobs_admin.cli.top.frame import frame
from jobs_admin.cli.top.snapshot import TopSnapshot
from tests.admin.admin_lab import until_shown
from tests.cli.stage import Stage, stage
from tests.given import NOON, after, created, job, log, scheduled
from tests.support.example_service import Task
from tests.support.lab import producer
from trellis_jobs.model.states import JobState
from trellis_jobs.model.timeline import LogRecord, timeline
from trellis_jobs.wire import jobs as wire

LATER = timedelta(hours=1)
ABSOLUTE = Output(absolute=True)
DELAYED = "delayed until 2026-03-28T13:00:00.000Z"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


def delayed_jobs(there: Stage, count: int = 1, queue: str = "mute") -> list[str]:
    return asyncio.run(_delay(there, count, queue))


async def _delay(there: Stage, count: int, queue: str) -> list[str]:
    async with producer(there.url) as jobs, AdminClient.connect(there.url) as admin:
        of = getattr(jobs, queue)
        ids = [ref.id for ref in await of.create_many([Task()] * count, delay=3600)]
        await until_shown(admin, ids, JobState.SCHEDULED)
    return ids


# Commands


def test_a_job_is_created_for_later(there: Stage) -> None:
    create = ("jobs", "create", "shop/greet", '"bob"', "--app", "tests.cli.shop:service", "--json")
    there.shell("infra", "apply", "tests.cli.shop:service")
    begun = datetime.now(UTC)
    made = there.shell(*create, "--in", "90m")
    assert made.code == 0, made.err
    found = there.job(made.json["id"])
    assert found.state is JobState.SCHEDULED
    assert found.run_at is not None
    assert timedelta(minutes=89) < found.run_at - begun < timedelta(minutes=91)
    at = there.shell(*create, "--at", "2099-01-01T09:00+01:00")
    assert there.job(at.json["id"]).run_at == datetime(2099, 1, 1, 8, tzinfo=UTC)
    expires = there.shell(*create, "--in", "2h", "--deadline", "1h")
    assert expires.code == 1
    assert "the job would expire before it may run" in expires.err


def test_a_job_is_moved_and_the_log_says_who_and_why(there: Stage) -> None:
    [delayed] = delayed_jobs(there)
    who = ("--by", "ann", "--reason", "the bank is closed")
    ended = there.shell("jobs", "reschedule", delayed, "--at", "2099-01-01T09:00Z", *who, "--yes")
    assert (ended.code, ended.out, ended.err) == (0, "rescheduled 1 job\n", "")
    found = there.job(delayed)
    assert found.next_attempt_at == datetime(2099, 1, 1, 9, tzinfo=UTC)
    shown = there.shell("jobs", "get", delayed).out
    assert "delayed until 2099-01-01" in shown.splitlines()[0]
    assert "ann moved it" in shown
    assert "by ann: the bank is closed" in there.shell("jobs", "events", delayed).out


def test_a_job_is_released_and_a_pending_one_is_not(there: Stage) -> None:
    [delayed] = delayed_jobs(there)
    assert there.shell("jobs", "run-now", delayed, "--yes").out == "released 1 job\n"
    assert there.job(delayed).next_attempt_at <= datetime.now(UTC)  # type: ignore[operator]
    pending = asyncio.run(_create_pending(there))
    refused = there.shell("jobs", "run-now", pending, "--yes")
    assert refused.code == 1
    assert "1 refused: still pending" in refused.out
    assert "it may run already, and `jobs explain` says what it waits for" in refused.out


async def _create_pending(there: Stage) -> str:
    async with producer(there.url) as jobs:
        return (await jobs.slow.create(Task())).id


def test_all_jobs_of_a_filter_are_moved_or_released(there: Stage) -> None:
    ids = delayed_jobs(there, 5, "plain")
    plain = ("--type", "plain", "--yes", "--json")
    moved = there.shell("jobs", "reschedule", "--in", "2d", *plain)
    assert (moved.code, moved.json["done"], moved.json["verb"]) == (0, 5, "reschedule")
    assert there.job(ids[0]).run_at > datetime.now(UTC) + timedelta(days=1)  # type: ignore[operator]
    released = there.shell("jobs", "run-now", *plain)
    assert (released.json["done"], released.json["verb"]) == (5, "run-now")
    shown = there.shell("operations", "get", moved.json["operation"]).out
    assert "to run at" in shown
    assert "rescheduled 5 jobs" in shown


def test_what_is_not_clear_is_refused_before_anything_is_asked(there: Stage) -> None:
    for arguments, advice in {
        ("reschedule", "01J", "--yes"): "say when the jobs are to run",
        ("reschedule", "01J", "--in", "1h", "--at", "12:00", "--yes"): "either --in or --at",
        ("reschedule", "01J", "--in", "soon", "--yes"): "'soon' is not a duration",
        ("reschedule", "01J", "--at", "2020-01-01", "--yes"): "is in the past",
        ("reschedule", "01J", "--in", "9999999d", "--yes"): "after the year 9999",
        ("run-now", "--yes"): "give the ids of the jobs to release",
        ("run-now", "--state", "pending", "--yes"): "only jobs that are scheduled or retry",
    }.items():
        ended = there.shell("jobs", *arguments)
        assert (ended.code, ended.out) == (2, ""), arguments
        assert advice in " ".join(ended.err.replace("│", " ").split()), ended.err


def test_json_keeps_the_state_and_the_time(there: Stage) -> None:
    [delayed] = delayed_jobs(there)
    got = there.shell("jobs", "get", delayed, "--json").json
    [listed] = there.shell("jobs", "list", "--id-prefix", delayed, "--json").json["entries"]
    for each in (got, listed):
        assert each["state"] == "scheduled"
        assert each["runAt"] == each["nextAttemptAt"]
    explained = there.shell("jobs", "explain", delayed, "--json").json
    assert (explained["state"], explained["because"]) == ("scheduled", "delayed")


def test_queues_with_delayed_jobs_alone_are_listed(there: Stage) -> None:
    delayed_jobs(there, 2, "hasty")
    queues = {each["type"]: each for each in there.shell("queues", "list", "--json").json["queues"]}
    assert queues["hasty"]["states"]["scheduled"] == 2
    assert "delayed" in there.shell("queues", "list").out.splitlines()[0].split()


# What is shown


def view(run_at: datetime) -> JobView:
    return JobView.model_validate(wire.to_json(job(scheduled(run_at=run_at))))


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (after(3600), "delayed until 2026-03-28T13:00:00.000Z"),
        (after(-20), "delayed until 2026-03-28T11:59:40.000Z"),
        (after(-60), "overdue since 2026-03-28T11:59:00.000Z"),
    ],
)
def test_a_delayed_job_says_until_when_and_whether_it_is_late(until: datetime, words: str) -> None:
    assert state_until(JobState.SCHEDULED, until, ABSOLUTE, NOON)[0] == words
    assert state_until(JobState.RETRY, until, ABSOLUTE, NOON)[0] == "retry"


def test_the_date_is_shown_unless_it_is_today() -> None:
    local = NOON.astimezone()
    assert moment(NOON, NOON) == f"{local:%H:%M:%S}"
    assert moment(NOON + timedelta(days=400), NOON) == "2027-05-02 " + f"{local:%H:%M}"


def text_of(shown: Any, width: int = 200) -> str:
    screen = Console(width=width)
    with screen.capture() as captured:
        screen.print(shown)
    return captured.get()


def test_lists_watch_timelines_and_dev_say_until_when() -> None:
    delayed = scheduled(run_at=after(3600), by="ann", reason="not yet")
    assert DELAYED in text_of(job_table([view(after(3600))], ABSOLUTE, NOON))
    assert DELAYED in text_of(job_frame(job(delayed), ABSOLUTE, NOON))
    [entry] = log(delayed)
    records = [LogRecord(entry.sequence, NOON, entry)]
    lines = [str(line) for line in render_timeline(timeline(records, NOON), ABSOLUTE, NOON)]
    assert f"{DELAYED}; by ann: not yet" in lines[0]
    assert "is delayed, 0 ms so far, until 2026-03-28T13:00:00.000Z" in lines[1]
    state = DevState(NOON)
    state.apply(entry)
    at = Frame(heading="dev", hints=(), now=NOON, width=120, height=30)
    drawn = text_of(draw(state, at), 120)
    assert f"until {moment(after(3600), NOON)}" in drawn
    assert "delayed" in drawn


def test_dev_shows_jobs_that_run_before_those_that_are_delayed() -> None:
    state = DevState(NOON)
    for entry in (
        *log(created()),
        *log(scheduled(job=_other("x"))),
        *log(scheduled(job=_other("y"))),
    ):
        state.apply(entry)
    assert [each.state for each in state.recent(1)] == [JobState.PENDING]


def _other(job_id: str) -> Any:
    address = created().job
    return type(address)(address.service, address.job_type, job_id)


def test_top_has_a_column_for_delayed_jobs_only_where_there_are_some() -> None:
    queue = QueueView(service="shop", type="greet", states={"scheduled": 7})
    for states, has_column in ((queue, True), (queue.model_copy(update={"states": {}}), False)):
        shown = text_of(frame(TopSnapshot(NOON, (states,), None, None), "top", Console(width=120)))
        assert ("delayed" in shown) == has_column
        assert ("7 delayed" in shown) == has_column


# Options


def test_options_are_a_moment_in_the_future() -> None:
    assert RunTimeOptions().moment(NOON) is None
    assert RunTimeOptions(delay="90s").moment(NOON) == NOON + timedelta(seconds=90)
    assert RunTimeOptions(at="2026-03-28T13:00+01:00").moment(NOON) == NOON
    with pytest.raises(typer.BadParameter, match="in the past"):
        RunTimeOptions(at="2026-03-28T12:59+01:00").moment(NOON)


def test_a_moved_job_is_moved_to_the_time_of_the_command() -> None:
    verb = reschedule_to(NOON + LATER)
    assert (verb.name, verb.imperative, verb.past) == ("reschedule", "reschedule", "rescheduled")
    assert (verb.run_at, RUN_NOW.run_at) == (NOON + LATER, None)
    assert (RUN_NOW.name, RUN_NOW.imperative, RUN_NOW.past) == ("run-now", "release", "released")
