"""What jobs died of, by queue and error."""

from __future__ import annotations

import pytest

from jobs_admin.client import JobQuery
from jobs_admin.reads.error_patterns import pattern_of
from tests.admin.admin_lab import AdminLab, until_shown
from tests.support.lab import Task, dead_jobs
from trellis_jobs.model.states import JobState

SAME = [
    ("KeyError: 'customer'", "KeyError: 'order'"),
    ("OSError: no route to 10.0.0.7:5432", "OSError: no route to 10.0.12.250:6432"),
    ("Gone: 550e8400-e29b-41d4-a716-446655440000", "Gone: 0f8fad5b-d9cb-469f-a165-70867728950e"),
    ("Gone: job 01M7JEEZVJZST3QAV997TP99RY", "Gone: job 01M7JE66KJRSDQGGFE7CRVT7NX"),
    ("Slow: 1,234.5 ms at 0x7f3a9c", "Slow: 17 ms at 0x55d0"),
    ("HTTPError: 503 for /orders/17", "HTTPError: 503  for\n/orders/4711"),
    ('ValueError: "a b" is no name', "ValueError: `c` is no name"),
    ("Full: disk of pod-7f9c8", "Full: disk of pod-12"),
]
DIFFERENT = [
    ("HTTPError: 503 for order 1", "HTTPError: 404 for order 1"),
    ("Refused: HTTP status 502", "Refused: HTTP status 429"),
    ("KeyError: 'a'", "IndexError: 'a'"),
    ("it won't open, and can't close", "it won't start, and can't close"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_only_in_values_is_one_error(one: str, other: str) -> None:
    assert pattern_of(one) == pattern_of(other)
    assert "*" in pattern_of(one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_a_server_answered_and_words_tell_errors_apart(one: str, other: str) -> None:
    assert pattern_of(one) != pattern_of(other)


async def _die(lab: AdminLab, *errors: str) -> list[str]:
    ids = await dead_jobs(lab.url, *errors)
    await until_shown(lab.client, ids, JobState.DEAD)
    return ids


async def test_dead_jobs_are_grouped_by_what_killed_them_the_most_frequent_first(
    lab: AdminLab,
) -> None:
    died = ("503 for order 2", "Order 'a' is GONE", "503 for order 1", "503 for order 3")
    ids = await _die(lab, *died)
    await lab.jobs.work.create(Task())
    jobs = [await lab.client.get(each) for each in ids]
    found = await lab.client.group_dead()
    assert (found.count, found.jobs, found.next_offset) == (2, 4, None)
    often, once = found.entries
    assert (often.service, often.type, often.jobs) == ("lab", "single", 3)
    assert often.error == "RuntimeError: 503 for order *"
    assert often.example_id == ids[3]
    assert (often.oldest_at, often.newest_at) == (jobs[0].completed_at, jobs[3].completed_at)
    assert (once.error, once.jobs) == ("RuntimeError: Order * is GONE", 1)


async def test_groups_are_of_the_jobs_that_a_filter_wants_and_come_in_pages(lab: AdminLab) -> None:
    ids = await _die(lab, "disk of order 1 is full", "no route", "disk of order 2 is full")
    full = await lab.client.group_dead(JobQuery(error="IS FULL"))
    assert [(group.jobs, group.example_id) for group in full.entries] == [(2, ids[2])]
    assert (await lab.client.group_dead(JobQuery(payload={"text": "no route"}))).jobs == 1
    assert (await lab.client.group_dead(JobQuery(service="nobody"))).count == 0
    first = await lab.client.group_dead(limit=1)
    assert (len(first.entries), first.count, first.jobs, first.next_offset) == (1, 2, 3, 1)
    [second] = (await lab.client.group_dead(limit=1, offset=1)).entries
    assert second.example_id == ids[1]
