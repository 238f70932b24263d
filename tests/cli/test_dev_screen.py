"""The screen of `dev`: whatever there is to show, it fits, and says what matters most."""

from __future__ import annotations

from datetime import datetime
from io import StringIO

import pytest
from rich.console import Console

from jobs_admin.cli.dev.screen import Frame, draw
from jobs_admin.cli.dev.state import DevState
from tests.given import NOON, after, created, failed, retried, started
from trellis_jobs.model.events import Event
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry
from trellis_jobs.model.states import JobState


def board_with(*events: Event, since: datetime = NOON) -> DevState:
    board = DevState(since)
    for sequence, event in enumerate(events, start=1):
        board.apply(Entry(sequence, event))
    return board


def drawn(board: DevState, width: int, height: int) -> list[str]:
    page = StringIO()
    surface = Frame(heading="dev", hints=("next",), now=after(10), width=width, height=height)
    Console(file=page, width=width, height=height).print(draw(board, surface))
    return page.getvalue().splitlines()


def many_jobs(count: int, services: int, queues: int) -> list[Event]:
    return [
        created(job=JobAddress(f"service-{n % services}", f"queue-{n % queues}", f"{n:026}"))
        for n in range(count)
    ]


@pytest.mark.parametrize("width", [80, 110, 200])
@pytest.mark.parametrize("height", [24, 50])
@pytest.mark.parametrize("queues", [1, 6, 60])
def test_it_fits_whatever_there_is(width: int, height: int, queues: int) -> None:
    board = board_with(*many_jobs(200, 3, queues))
    board.set_app_status("app:service", "broken: " + "very " * 200, is_error=True)
    for _ in range(50):
        board.add_notice("app:service", "what\nis said\nin several lines")
    lines = drawn(board, width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert any(f"{199:026}" in line for line in lines), "the newest job, with its whole id"
    assert lines[-1].rstrip().endswith("in several lines")


def test_jobs_that_ended_long_ago_are_counted_once_when_they_are_retried_or_dismissed() -> None:
    jobs = [JobAddress("shop", "charge", f"{n:026}") for n in range(1_200)]
    events: list[Event] = []
    for each in jobs:
        events += [created(job=each), started(job=each), failed(job=each)]
    board = board_with(*events, retried(job=jobs[0]))
    assert board.totals() == {JobState.FAILED: 1_199, JobState.PENDING: 1}
    assert board.ignored == 0


def test_queues_that_do_not_fit_are_counted() -> None:
    lines = drawn(board_with(*many_jobs(60, 1, 60)), 100, 30)
    shown = sum("queue-" in line for line in lines[: lines.index("")])
    assert any(f"queue (and {60 - shown} more)" in line for line in lines)


def test_a_queue_is_called_by_its_service_where_there_are_several() -> None:
    assert not any("service-0/" in line for line in drawn(board_with(*many_jobs(4, 1, 2)), 120, 30))
    assert any(
        "service-1/queue-1" in line for line in drawn(board_with(*many_jobs(4, 2, 2)), 120, 30)
    )


def test_what_is_wrong_with_an_app_stands_above_all() -> None:
    board = board_with()
    board.set_app_status("app:service", "runs jobs of greet")
    board.set_app_status("app:service", "exited with code 1: NameError: x", is_error=True)
    assert drawn(board, 80, 24)[2].strip() == "app:service exited with code 1: NameError: x"


def test_a_user_without_jobs_is_told_how_to_make_one() -> None:
    board = board_with()
    assert "no jobs yet" in "\n".join(drawn(board, 80, 24))
    board.add_queues("shop", ["bill"])
    assert "no jobs yet: trellis-jobs jobs create shop/bill PAYLOAD" in drawn(board, 80, 24)


def test_events_of_before_count_but_are_no_news() -> None:
    board = board_with(created(), started(), failed(), since=after(60))
    assert board.totals() == {JobState.FAILED: 1}
    assert not board.news


def test_a_job_that_runs_again_is_counted_once() -> None:
    board = board_with(created(), started(), failed(), retried())
    assert +board.totals() == {JobState.PENDING: 1}
    assert [job.state for job in board.recent(5)] == [JobState.PENDING]
