"""Operators move jobs that wait to another time, or let them run: one by one, and by filter."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson
import pytest

from jobs_admin.actions.job_actions import ActionRequest, reschedule, retry
from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid, Unexpected
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.rpc.older_clients import document_for_older_client
from tests.admin.admin_lab import AdminLab, until_shown
from tests.admin.operations_lab import until_over
from tests.admin.upkeep_lab import key_view, looking_after
from tests.admin.upkeep_lab import producer as ward_producer
from tests.given import (
    after,
    created,
    dead,
    log,
    retry_scheduled,
    scheduled,
    stale_completion_ignored,
    started,
)
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import probe, until_state, worker
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import DeadlineInvalid
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import EventKind, Retried, Scheduled
from trellis_jobs.model.job import fold
from trellis_jobs.model.states import JobState

HOUR: Final = timedelta(hours=1)


def in_an_hour() -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + HOUR


async def kinds(lab: AdminLab, ref: JobRef[Any]) -> list[EventKind]:
    return [entry.event.kind for entry in await lab.daemon.events.history(ref.address)]


# One job


async def test_a_delayed_job_is_moved_and_says_who_why_and_by_which_request(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task(), delay=60)
    to = in_an_hour()
    body = {"id": ref.id, "runAt": to.isoformat(), "by": "grace", "reason": "the bank is closed"}
    headers = {"request-id": "REQ-9", "known-states": "scheduled"}
    answer = await lab.stranger.ask("Jobs.Reschedule", body, **headers)
    job = answer["job"]
    assert (job["state"], datetime.fromisoformat(job["runAt"])) == ("scheduled", to)
    assert job["nextAttemptAt"] == job["runAt"]
    _, moved = [entry async for entry in lab.client.events(ref.id)]
    assert moved.event is not None
    told = {name: moved.event[name] for name in ("eventType", "by", "byRequestId", "error")}
    assert told == {
        "eventType": "scheduled",
        "by": "grace",
        "byRequestId": "REQ-9",
        "error": "the bank is closed",
    }
    assert moved.seq == answer["seq"]


async def test_a_delayed_job_that_is_to_run_now_runs(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        ref = await lab.jobs.work.create(Task(), delay=3600)
        changed = await lab.client.run_now(ref.id, reason="the customer waits")
        assert changed.job.id == ref.id
        assert (await ref.wait(timeout=20)).tries == 1
    assert await kinds(lab, ref) == ["scheduled", "scheduled", "created", "started", "completed"]


async def test_a_job_that_waits_for_its_next_try_is_moved_and_keeps_its_tries(
    lab: AdminLab,
) -> None:
    async with worker(lab.url, "work"):
        ref = await lab.jobs.work.create(Task(do="later", seconds=3600))
        await until_state(ref, JobState.RETRY)
        moved = await lab.client.reschedule(ref.id, in_an_hour())
        assert (moved.job.state, moved.job.tries) == (JobState.SCHEDULED, 1)
        await lab.client.run_now(ref.id)
        assert (await ref.wait(timeout=20)).tries == 2


async def test_a_job_that_waits_for_its_next_try_is_tried_now(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        ref = await lab.jobs.work.create(Task(do="later", seconds=3600))
        await until_state(ref, JobState.RETRY)
        await lab.client.run_now(ref.id)
        assert (await ref.wait(timeout=20)).tries == 2


async def test_a_pending_job_is_postponed_and_no_worker_gets_it_before(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    moved = await lab.client.reschedule(ref.id, in_an_hour())
    assert moved.job.state is JobState.SCHEDULED
    async with worker(lab.url, "work") as bench, probe(lab.url) as raw:
        other = await lab.jobs.work.create(Task())
        await other.wait(timeout=20)
        await raw.until_empty()
        assert bench.begun == [other.id]


async def test_a_pending_job_that_is_to_run_now_is_left_where_it_is_and_says_why(
    lab: AdminLab,
) -> None:
    ref = await lab.jobs.work.create(Task())
    with pytest.raises(
        Invalid,
        match=f"job {ref.id} has been pending since .*; only retry or scheduled jobs can be "
        "released: it may run already, and `jobs explain` says what it waits for",
    ) as refused:
        await lab.client.run_now(ref.id)
    assert (refused.value.actual, refused.value.expected) == ("pending", ("retry", "scheduled"))
    assert await kinds(lab, ref) == ["created"]


async def test_a_job_that_is_over_cannot_be_moved(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task(), delay=3600)
    await lab.client.cancel(ref.id)
    with pytest.raises(
        Invalid,
        match=r"was cancelled by ann at .*; only pending, retry or scheduled jobs can be resched",
    ):
        await lab.client.reschedule(ref.id, in_an_hour())
    with pytest.raises(Invalid, match="was cancelled by ann"):
        await lab.client.run_now(ref.id)


async def test_a_job_is_not_moved_behind_its_deadline(lab: AdminLab) -> None:
    deadline = datetime.now(UTC) + timedelta(minutes=5)
    ref = await lab.jobs.work.create(Task(), delay=60, deadline=deadline)
    with pytest.raises(Invalid, match="the job would expire before it may run") as refused:
        await lab.client.reschedule(ref.id, in_an_hour())
    assert refused.value.issues[0].path == "/runAt"
    assert await kinds(lab, ref) == ["scheduled"]


@pytest.mark.parametrize("run_at", ["2027-01-01T09:00:00", "soon", None, "9999-12-31T23:00-20"])
async def test_a_time_that_is_none_is_refused_with_the_field(lab: AdminLab, run_at: Any) -> None:
    body = {"id": "01J", "runAt": run_at} if run_at is not None else {"id": "01J"}
    refused = await lab.stranger.refused("Jobs.Reschedule", orjson.dumps(body))
    assert refused["type"] == "ValidationError"
    assert "/runAt" in refused["message"]


async def test_a_job_moved_to_a_time_in_the_past_runs_at_once(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        ref = await lab.jobs.work.create(Task(), delay=3600)
        await lab.client.reschedule(ref.id, datetime(2020, 1, 1, tzinfo=UTC))
        await ref.wait(timeout=20)


async def test_of_moves_at_the_same_time_each_is_in_the_log_and_the_job_runs_once(
    lab: AdminLab,
) -> None:
    async with worker(lab.url, "work") as bench:
        ref = await lab.jobs.work.create(Task(), delay=3600)
        moves = [lab.client.reschedule(ref.id, in_an_hour()) for _ in range(5)]
        moves += [lab.client.run_now(ref.id) for _ in range(5)]
        answers = await asyncio.gather(*moves, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert all(isinstance(each, Invalid) for each in refused), refused
        if (await ref.get()).state is JobState.SCHEDULED:
            await lab.client.run_now(ref.id)
        await ref.wait(timeout=20)
        assert bench.begun == [ref.id]


async def test_a_cancelled_job_leaves_no_alarm(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task(), delay=3600)
    await lab.client.cancel(ref.id)
    async with probe(lab.url) as raw:

        async def is_empty() -> bool:
            info = await api.request(raw.connection, "STREAM.INFO.JOBS_ALARMS_lab")
            return int(info["state"]["messages"]) == 0

        await until(is_empty, "the alarm is gone")


async def test_without_a_stream_for_alarms_a_move_is_refused_and_says_what_to_do(
    lab: AdminLab,
) -> None:
    ref = await lab.jobs.work.create(Task())
    async with probe(lab.url) as raw:
        await api.request(raw.connection, "STREAM.DELETE.JOBS_ALARMS_lab")
    with pytest.raises(
        Unexpected,
        match="stream JOBS_ALARMS_lab is missing: create it with the code of service lab: "
        "`trellis-jobs infra apply MODULE:SERVICE`",
    ):
        await lab.client.reschedule(ref.id, in_an_hour())
    assert await kinds(lab, ref) == ["created"]


# Keys


async def test_a_moved_job_leaves_the_queue_of_its_key_to_others(
    server: EmbeddedServer, tmp_path: Any
) -> None:
    """The key has one place for a waiting job."""
    async with (
        ward_producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url, by="ann", timeout=20) as client,
    ):
        waits = await jobs.keyed.create(Task())
        key = key_view(raw, jobs.keyed)
        assert [each.job_id for each in (await key.read()).queued] == [waits.id]
        await client.reschedule(waits.address, in_an_hour())
        assert (await key.read()).queued == ()
        next_one = await jobs.keyed.create(Task())
        assert [each.job_id for each in (await key.read()).queued] == [next_one.id]


# Many jobs


async def test_all_delayed_jobs_of_a_filter_run_now(lab: AdminLab) -> None:
    refs = [await lab.jobs.work.create(Task(), delay=3600) for _ in range(20)]
    other = await lab.jobs.slow.create(Task(), delay=3600)
    pending = await lab.jobs.work.create(Task())
    await until_shown(lab.client, [pending.id], JobState.PENDING)
    query = JobFilter(type="work")
    preview = await lab.client.preview(OperationVerb.RUN_NOW, query)
    assert (preview.count, [(each.state, each.jobs) for each in preview.refused]) == (
        20,
        [(JobState.PENDING, 1)],
    )
    operation = await lab.client.operate(OperationVerb.RUN_NOW, query, reason="the bank is open")
    ended = await until_over(lab.client, operation)
    assert (ended.done, ended.refused) == (20, {})
    async with worker(lab.url, "work") as bench:
        await asyncio.gather(*(ref.wait(timeout=20) for ref in refs))
        assert sorted(bench.begun) == sorted([*(ref.id for ref in refs), pending.id])
    assert (await other.get()).state is JobState.SCHEDULED


async def test_all_jobs_of_a_filter_are_moved_except_those_that_would_expire(
    lab: AdminLab,
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    refs = [await lab.jobs.work.create(Task(), delay=60) for _ in range(5)]
    expiring = await lab.jobs.work.create(Task(), delay=60, deadline=soon)
    await until_shown(lab.client, [expiring.id], JobState.SCHEDULED)
    to = in_an_hour()
    query = JobFilter(type="work")
    operation = await lab.client.operate(OperationVerb.RESCHEDULE, query, run_at=to)
    ended = await until_over(lab.client, operation)
    assert (ended.done, ended.refused) == (5, {"would expire before that time": 1})
    assert ended.run_at == to
    moved = [await lab.client.get(ref.id) for ref in refs]
    assert {each.next_attempt_at for each in moved} == {to}


@pytest.mark.parametrize(
    ("verb", "run_at", "problem"),
    [
        ("reschedule", None, "reschedule needs runAt"),
        ("cancel", "2027-01-01T00:00:00Z", "cancel takes no runAt"),
    ],
)
async def test_only_a_move_of_many_jobs_has_a_time(
    lab: AdminLab, verb: str, run_at: str | None, problem: str
) -> None:
    body = {"verb": verb} | ({} if run_at is None else {"runAt": run_at})
    refused = await lab.stranger.refused("Jobs.Operate", orjson.dumps(body))
    assert problem in refused["message"]


# Clients that do not know the state


async def test_clients_that_do_not_know_delayed_jobs_see_them_as_pending_with_their_time(
    lab: AdminLab,
) -> None:
    ref = await lab.jobs.work.create(Task(text='"state":"scheduled"'), delay=3600)
    known = {"known-states": "scheduled"}
    await until_shown(lab.client, [ref.id], JobState.SCHEDULED)
    for headers, state in (({}, "pending"), (known, "scheduled")):
        got = (await lab.stranger.ask("Jobs.Get", {"id": ref.id}, **headers))["job"]
        [listed] = (await lab.stranger.ask("Jobs.List", {"limit": 9}, **headers))["entries"]
        for job in (got, listed):
            assert (job["state"], job["payload"]["text"]) == (state, '"state":"scheduled"')
            assert job["runAt"] == job["nextAttemptAt"]
    asked = await lab.stranger.ask("Jobs.List", {"limit": 9, "state": ["scheduled"]})
    assert asked["entries"][0]["state"] == "scheduled"


def test_only_the_state_of_the_job_itself_is_changed_for_older_clients() -> None:
    running = b'{"id":"1","state":"active","payload":{"state":"scheduled"}}'
    assert document_for_older_client(running) == running
    delayed = b'{"id":"1","state":"scheduled","payload":{"state":"scheduled"}}'
    assert document_for_older_client(delayed) == (
        b'{"id":"1","state":"pending","payload":{"state":"scheduled"}}'
    )


# The events, without a server


def test_a_default_deadline_moves_with_the_job_also_after_a_note() -> None:
    first = scheduled(run_at=after(60), deadline=after(70), deadline_after=timedelta(seconds=10))
    job = fold(log(first, stale_completion_ignored()))
    assert job is not None
    moved = reschedule(job, ActionRequest(by="ann", run_at=after(600)), after(5))
    assert isinstance(moved, Scheduled)
    assert (moved.deadline, moved.by) == (after(610), "ann")


def test_a_chosen_deadline_does_not_move() -> None:
    job = fold(log(scheduled(run_at=after(60), deadline=after(70))))
    assert job is not None
    with pytest.raises(DeadlineInvalid):
        reschedule(job, ActionRequest(by="ann", run_at=after(70)), after(5))


def test_a_retried_job_knows_the_time_for_which_it_was_planned() -> None:
    begun = created(run_at=after(60), schedule="nightly")
    job = fold(log(begun, started(), retry_scheduled(), started(tries=2), dead(tries=2)))
    assert job is not None
    again = retry(job, ActionRequest(by="ann"), after(99))
    assert isinstance(again, Retried)
    assert (again.run_at, again.schedule) == (after(60), "nightly")
