"""`queues history`, `queues list --at` and `jobs list --at`, asked of a real admin runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import orjson
import pytest

from jobs_admin.cli.render.times import stamp
from tests.cli.library import Library, library
from trellis_jobs.environment import utc_now


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with library(tmp_path_factory.mktemp("library")) as made:
        yield made


def test_a_history_counts_events_and_shows_how_long_tries_took(books: Library) -> None:
    for step in ("1m", "1h"):
        options = ("--since", "30m", "--step", step)
        told = books.stage.shell("queues", "history", "library/index", *options, "--json").json
        assert sum(told["events"]["created"]) == 2
        assert sum(told["events"]["dead"]) == 2
        assert told["run"]["attempts"] == sum(told["events"]["started"])
        shown = books.stage.shell("queues", "history", "library/index", *options).out
        head, *_, wait, run = shown.splitlines()
        assert head.split()[:3] == ["from", "created", "started"]
        assert re.match(r"wait: p50 .*, p95 .*, p99 .* \(\d+ tries\)", wait)
        assert run.startswith("run: p50 ")


def test_a_queue_without_events_has_no_history(books: Library) -> None:
    told = books.stage.shell("queues", "history", "library/unknown")
    assert (told.code, told.out) == (0, "library/unknown had no events in that time\n")


def test_steps_that_are_not_counted_are_refused(books: Library) -> None:
    for options, why in (
        (("--step", "5m"), "is neither 1m nor whole hours"),
        (("--step", "1m", "--since", "2d"), "more than 360 steps"),
    ):
        refused = books.stage.shell("queues", "history", "library/index", *options)
        assert refused.code == 2
        assert why in re.sub(r"[│\s]+", " ", refused.err)


def test_queues_are_counted_as_they_were(books: Library) -> None:
    ended = books.stage.shell("queues", "list", "--at", "1h")
    assert ended.code == 0
    [line] = ended.out.splitlines()
    assert line.startswith("as of ")
    future = stamp(utc_now() + timedelta(seconds=50))
    counted = books.stage.shell("queues", "list", "--at", future, "--json").json
    assert counted["resolutionMinutes"] == 1
    refused = books.stage.shell("queues", "list", "--at", "60d")
    assert refused.code != 0
    assert "too long ago" in refused.err


def test_jobs_are_listed_as_they_were(books: Library) -> None:
    now = stamp(utc_now())
    listed = books.stage.shell("jobs", "list", "--at", now, "--json").json
    assert {job["id"] for job in listed["entries"]} == {books.torn, books.read, books.lent}
    assert listed["hasMore"] is False
    lines = books.stage.shell("jobs", "list", "--at", now, "--state", "dead", "--all", "--json").out
    assert [orjson.loads(line)["id"] for line in lines.splitlines()] == [books.torn]
    first = books.stage.shell("jobs", "list", "--at", now, "--limit", "1")
    assert first.out.splitlines()[-1].startswith("1 job, and more, as of ")
    assert books.stage.shell("jobs", "list", "--at", "1h").out.splitlines()[-1].startswith("0 jobs")


def test_filters_about_the_present_do_not_fit_the_past(books: Library) -> None:
    refused = books.stage.shell("jobs", "list", "--at", "1m", "--error", "x")
    assert refused.code == 2
    assert "not with --error" in re.sub(r"[│\s]+", " ", refused.err)
