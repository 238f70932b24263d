"""What needs attention: the rules about jobs and keys with values, and Jobs.Attention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs_admin.api.views.doctor import Finding, Level, Section, Subject
from jobs_admin.api.views.keys import BusyKeyView, HolderView
from jobs_admin.api.views.queues import QueueView
from jobs_admin.doctor.attention import attention
from jobs_admin.doctor.findings import about_queue, broken, diagnosis, fine, note, warning
from jobs_admin.doctor.job_rules import check_jobs, first_failing_minute
from jobs_admin.doctor.key_rules import check_keys
from jobs_admin.remembered import Remembered
from tests.admin.admin_lab import AdminLab
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import worker

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TEN_MINUTES = 600_000


def a_queue(**facts: Any) -> QueueView:
    return QueueView(service="shop", type="charge", **facts)


def test_a_queue_whose_tries_mostly_fail_is_broken_since_a_moment() -> None:
    queue = a_queue(per_minute={"started": 10, "retry": 9.2})
    [found] = check_jobs(queue, NOW)
    assert (found.level, found.since) == (Level.BROKEN, NOW)
    assert "shop/charge: 92% of tries fail" in found.message
    assert found.about == about_queue("shop", "charge")


@pytest.mark.parametrize(
    "per_minute", [{"started": 10, "retry": 5}, {"started": 0.2, "dead": 0.2}, {}]
)
def test_few_failures_and_few_tries_are_no_finding(per_minute: dict[str, float]) -> None:
    assert list(check_jobs(a_queue(per_minute=per_minute))) == []


def test_jobs_that_die_are_a_warning_that_leads_to_the_dead() -> None:
    [found] = check_jobs(a_queue(per_minute={"started": 10, "dead": 2}))
    assert found.about is not None
    assert (found.level, found.about.subject) == (Level.WARNING, Subject.DEAD_JOBS)


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        ({"per_minute": {"created": 9, "completed": 3, "started": 3}}, "arrive faster"),
        ({"per_minute": {"completed": 3, "started": 3}}, "is drained in 3 min 20 s"),
        ({"per_minute": {"started": 3}, "in_flight": 8}, "handlers may be stuck"),
        ({"free_slots": 6, "in_flight": 2, "worker_slots": 8}, "may wait for their keys"),
    ],
)
def test_a_queue_that_is_too_old_says_what_the_numbers_look_like(
    facts: dict[str, Any], remedy: str
) -> None:
    [found] = check_jobs(a_queue(depth=10, oldest_age_ms=TEN_MINUTES, **facts))
    assert "the oldest of 10 waiting jobs has waited for 10 min" in found.message
    assert remedy in (found.remedy or "")


@pytest.mark.parametrize("reason", [{"paused": True}, {"unattended": True}])
def test_an_old_queue_that_is_paused_or_unattended_is_reported_only_as_that(
    reason: dict[str, bool],
) -> None:
    assert list(check_jobs(a_queue(depth=1, oldest_age_ms=TEN_MINUTES, **reason))) == []


def test_failures_began_in_the_first_minute_after_the_last_good_one() -> None:
    assert first_failing_minute([5, 5, 0, 5, 5], [5, 0, 0, 5, 4]) == 3
    assert first_failing_minute([5, 5], [5, 5]) == 0
    assert first_failing_minute([5, 0], [0, 0]) == 1
    assert first_failing_minute([], []) == 0


def a_key(*, waits: timedelta, holders: tuple[HolderView, ...] | None) -> BusyKeyView:
    return BusyKeyView(
        service="shop",
        type="charge",
        key="acme",
        key_hash="ab" * 32,
        active=1,
        waiting=14,
        holders=holders,
        oldest_waiting_at=NOW - waits,
    )


def a_holder(*, age_ms: int) -> HolderView:
    return HolderView(
        job_id="job-1",
        instance_id="worker-a",
        started_at=NOW,
        heartbeat_at=NOW,
        heartbeat_age_ms=age_ms,
        lease_expires_at=NOW + timedelta(seconds=30),
    )


LONG = timedelta(minutes=12)


@pytest.mark.parametrize(
    ("holders", "level", "words"),
    [
        ((a_holder(age_ms=40_000),), Level.BROKEN, "has not renewed its lease for 40 s"),
        ((), Level.BROKEN, "no job holds it"),
        ((a_holder(age_ms=1_000),), Level.WARNING, "14 jobs wait, the oldest for 12 min"),
    ],
)
def test_a_key_that_is_blocked_for_long_is_found(
    holders: tuple[HolderView, ...], level: Level, words: str
) -> None:
    [found] = check_keys([a_key(waits=LONG, holders=holders)], NOW)
    assert (found.level, found.since) == (level, NOW - LONG)
    assert words in found.message
    assert found.about is not None
    assert (found.about.subject, found.about.name) == (Subject.KEY, "ab" * 32)


def test_a_key_that_is_waited_for_a_moment_or_cannot_be_read_is_no_finding() -> None:
    brief = a_key(waits=timedelta(minutes=1), holders=())
    assert check_keys([brief, a_key(waits=LONG, holders=None)], NOW) == []


def test_the_most_urgent_comes_first_and_what_is_fine_is_left_out() -> None:
    about = about_queue("shop", "charge")
    findings: list[Finding] = [
        fine("the server is there"),
        note("one server"),
        note("shop/charge: paused", about),
        warning("a clock is off", "synchronise the clocks"),
        broken("no worker", "start one", about),
    ]
    found = attention([diagnosis([Section(name="all", findings=tuple(findings))])], NOW)
    assert [each.message for each in found.findings] == [
        "no worker",
        "a clock is off",
        "shop/charge: paused",
    ]


async def test_a_remembered_value_is_found_again_when_its_time_is_over() -> None:
    now, searches = 5.0, 0

    async def find() -> int:
        nonlocal searches
        searches += 1
        return searches

    remembered = Remembered(find, 10.0, lambda: now)
    assert [await remembered.get(), await remembered.get()] == [1, 1]
    now += 10
    assert await remembered.get() == 2


async def test_jobs_without_a_worker_need_attention_until_one_starts(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        pass
    await lab.jobs.work.create(Task())

    async def unattended() -> Finding | None:
        findings = (await lab.client.attention()).findings
        return next((each for each in findings if "no worker" in each.message), None)

    found = await until(unattended, "the queue is found")
    assert found.level is Level.BROKEN
    assert found.about == about_queue("lab", "work")
    assert found.remedy == "start workers for lab/work"
    async with worker(lab.url, "work"):

        async def attended() -> bool:
            return await unattended() is None

        await until(attended, "the queue is no longer found")
