"""What operators change: who, why and by which request is in the log, and the answer is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jobs_admin.actions.job_actions import ActionRequest, retry
from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid
from jobs_admin.api.views.jobs import ChangedJob
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import Daemon, serving
from tests.admin.admin_lab import AdminLab
from tests.given import after, created, failed, log, started
from tests.support.example_service import Task, TaskWorker
from tests.support.facts import until
from tests.support.lab import producer, until_state, worker
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment, utc_now
from trellis_jobs.model.events import EventKind, Retried
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import fold
from trellis_jobs.model.states import JobState
from trellis_jobs.model.try_limits import TryLimits


@pytest.mark.parametrize(("at", "kept"), [(59, after(60)), (60, None), (61, None)])
def test_a_deadline_that_has_passed_does_not_end_a_fresh_run(
    at: float, kept: datetime | None
) -> None:
    job = fold(log(created(deadline=after(60)), started(), failed()))
    assert job is not None
    again = retry(job, ActionRequest(by="ann"), after(at))
    assert isinstance(again, Retried)
    assert again.deadline == kept


def test_a_retried_job_keeps_its_own_limits() -> None:
    limits = TryLimits(timedelta(seconds=7), timedelta(seconds=8))
    job = fold(log(created(try_limits=limits, max_tries=9), started(), failed()))
    assert job is not None
    again = retry(job, ActionRequest(by="ann"), after(20))
    assert isinstance(again, Retried)
    assert (again.max_tries, again.try_limits) == (9, limits)


async def test_a_cancelled_job_says_who_why_and_by_which_request(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    body = {"id": ref.id, "by": "grace", "reason": "twice by mistake"}
    answer = await lab.stranger.ask("Jobs.Cancel", body, **{"request-id": "REQ-17"})
    job = answer["job"]
    assert (job["state"], job["by"], job["reason"]) == ("cancelled", "grace", "twice by mistake")
    created, cancelled = [entry async for entry in lab.client.events(ref.id)]
    assert created.event is not None
    assert cancelled.event is not None
    assert cancelled.event["by"] == "grace"
    assert cancelled.event["byRequestId"] == "REQ-17"
    assert cancelled.event["error"] == "twice by mistake"
    assert cancelled.event["context"] == created.event["context"], "the job's trace goes on"
    assert cancelled.seq == answer["seq"] == job["lastSeq"]


async def test_a_request_without_an_id_or_a_name_is_given_them(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    await lab.stranger.ask("Jobs.Cancel", {"id": ref.id})
    *_, cancelled = [entry async for entry in lab.client.events(ref.id)]
    assert cancelled.event is not None
    assert cancelled.event["by"] == "operator"
    assert len(str(cancelled.event["byRequestId"])) == 26


async def test_a_running_handler_is_told_that_its_job_was_cancelled(lab: AdminLab) -> None:
    async with worker(lab.url, "work") as bench:
        ref = await lab.jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        changed = await lab.client.cancel(ref.id)
        assert changed.job.state is JobState.CANCELLED
        await until(lambda: ref.id in bench.cancelled, "the handler is told")


async def test_watching_a_job_that_was_retried_goes_on_to_its_new_end(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        ref = await lab.jobs.work.create(Task(do="give up"))
        await until_state(ref, JobState.FAILED)
    await lab.client.retry(ref.id)
    seen: list[JobState] = []
    async for job in ref.watch():
        seen.append(job.state)
        if seen[-2:] == [JobState.FAILED, JobState.PENDING]:
            await ref.cancel()
    assert seen == ["pending", "active", "failed", "pending", "cancelled"]


async def test_a_job_retried_runs_again_as_the_same_job(lab: AdminLab) -> None:
    async with worker(lab.url, "work", "single") as bench:
        failed = await lab.jobs.work.create(Task(do="give up"))
        dead = await lab.jobs.single.create(Task(do="always fail"))
        await until_state(failed, JobState.FAILED)
        await until_state(dead, JobState.DEAD)
        assert (await lab.client.retry(failed.id, reason="try again")).job.id == failed.id
        assert (await lab.client.replay(dead.id)).job.tries in (0, 1)
        await until(lambda: _runs(bench, failed) == _runs(bench, dead) == 2, "both ran again")
        await until_state(failed, JobState.FAILED)
    seq = (await lab.daemon.events.history(failed.address))[-1].sequence
    found = await lab.client.get(failed.id, min_seq=seq)
    [earlier] = found.earlier_runs
    assert earlier.errors[0].message == "this cannot work"
    assert (found.begun_by, found.by) == ("ann", None), "its handler failed it, not an operator"
    assert (earlier.begun_by, earlier.by) == (None, None)
    with pytest.raises(
        Invalid, match=f"job {failed.id} failed at [^ ]*; only active, pending, retry or scheduled"
    ) as not_so:
        await lab.client.cancel(failed.id)
    assert " by " not in not_so.value.message


def _runs(bench: TaskWorker, ref: JobRef[Any]) -> int:
    return [job_id for job_id, _ in bench.runs].count(ref.id)


async def test_a_dismissed_job_leaves_the_list_of_dead_ones(lab: AdminLab) -> None:
    ref = await lab.jobs.single.create(Task(do="always fail"))
    async with worker(lab.url, "single"):
        await until_state(ref, JobState.DEAD)
    seq = (await lab.daemon.events.history(ref.address))[-1].sequence
    assert (await lab.client.list_dead(min_seq=seq)).count == 1
    dismissed = await lab.client.dismiss(ref.id, reason="known outage")
    assert dismissed.job.state is JobState.DISMISSED
    assert (await lab.client.list_dead()).count == 0


WITHOUT_TURNS = (
    *("projector", "advisories", "operations"),
    *("worker records", "schedule records", "audit records"),
)
Change = Callable[[AdminClient, str], Any]


@pytest.mark.parametrize(
    ("change", "legal"),
    [
        (AdminClient.retry, ("dead", "failed")),
        (AdminClient.replay, ("dead",)),
        (AdminClient.dismiss, ("dead",)),
    ],
)
async def test_a_job_in_another_state_is_left_alone_and_the_legal_ones_are_named(
    lab: AdminLab, change: Change, legal: tuple[str, ...]
) -> None:
    ref = await lab.jobs.work.create(Task())
    with pytest.raises(Invalid) as refused:
        await change(lab.client, ref.id)
    assert refused.value.expected == legal
    assert refused.value.actual == "pending"
    assert f"job {ref.id} has been pending since" in str(refused.value)
    assert len(await lab.daemon.events.history(ref.address)) == 1


async def test_a_job_that_is_over_cannot_be_cancelled_and_says_who_ended_it(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    await lab.client.cancel(ref.id)
    with pytest.raises(
        Invalid, match=f"job {ref.id} was cancelled by ann at .*; only active"
    ) as refused:
        await lab.client.cancel(ref.id)
    job = await lab.client.get(ref.id)
    told = refused.value
    assert (told.actual, told.since, told.by) == ("cancelled", job.updated_at, "ann")
    assert not told.raced


async def test_an_order_that_lost_the_race_learns_what_won(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    racing = Racing()
    seldom = timedelta(days=1)
    config = AdminConfig(
        nats=server.url,
        path=tmp_path / "jobs.sqlite",
        janitor_interval=seldom,
        reconcile_interval=seldom,
        retention_interval=seldom,
    )
    async with (
        producer(server.url) as jobs,
        serving(config, Environment(now=racing.now)) as daemon,
        AdminClient.connect(server.url, by="ann") as client,
    ):
        ref = await jobs.work.create(Task())
        await until(lambda: _have_had_their_turn(daemon), "the loops look at no clock any more")
        racing.meanwhile = lambda: asyncio.run(_cancel_as_its_service(server.url, ref.address))
        with pytest.raises(
            Invalid, match=r"another change came first: job .* was cancelled by lab at "
        ) as lost:
            await client.cancel(ref.address)
        assert (lost.value.raced, lost.value.by) == (True, "lab")
        kinds = [entry.event.kind for entry in await daemon.events.history(ref.address)]
    assert kinds == [EventKind.CREATED, EventKind.CANCELLED]


class Racing:
    """A clock that is looked at when a job has been read, and before its event is appended."""

    meanwhile: Callable[[], None] | None = None

    def now(self) -> datetime:
        if self.meanwhile is not None:
            other, self.meanwhile = Thread(target=self.meanwhile), None
            other.start()
            other.join()
        return utc_now()


def _have_had_their_turn(daemon: Daemon) -> bool:
    in_turns = [loop for name, loop in daemon.loops.all.items() if name not in WITHOUT_TURNS]
    return bool(in_turns) and all(loop.last_success for loop in in_turns)


async def _cancel_as_its_service(url: str, address: JobAddress) -> None:
    async with producer(url) as jobs:
        await jobs.work.ref(address.job_id).cancel()


async def test_of_a_cancel_and_an_end_one_wins_and_the_answer_says_which(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        refs = await asyncio.gather(*(lab.jobs.work.create(Task()) for _ in range(60)))
        answers = await asyncio.gather(
            *(lab.client.cancel(ref.id) for ref in refs), return_exceptions=True
        )
        for ref, answer in zip(refs, answers, strict=True):
            history = await lab.daemon.events.history(ref.address)
            kinds = [entry.event.kind for entry in history]
            if isinstance(answer, Invalid):
                assert answer.actual == "completed"
                assert "completed at" in answer.message
                assert kinds.count(EventKind.CANCELLED) == 0
            else:
                assert isinstance(answer, ChangedJob), answer
                assert kinds.count(EventKind.COMPLETED) == 0
                assert answer.job.state is JobState.CANCELLED


async def test_a_change_is_seen_by_the_next_read(lab: AdminLab) -> None:
    for _ in range(30):
        ref = await lab.jobs.work.create(Task())
        assert (await lab.client.get(ref.id)).state is JobState.PENDING
        await lab.client.cancel(ref.id)
        assert (await lab.client.get(ref.id)).state is JobState.CANCELLED
        newest = (await lab.client.list_jobs(limit=1)).entries[0]
        assert (newest.id, newest.state) == (ref.id, JobState.CANCELLED)


async def test_no_reader_waits_for_a_sequence_beyond_the_end_of_the_log(lab: AdminLab) -> None:
    await lab.jobs.work.create(Task())
    with pytest.raises(Invalid, match="the log ends at 1, so sequence 2 does not exist"):
        await lab.client.list_jobs(min_seq=2)
