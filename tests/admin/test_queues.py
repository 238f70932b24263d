"""Jobs.ListQueues, PauseQueue and ResumeQueue, and Jobs.Doctor."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs_admin.api.errors import NotFound
from jobs_admin.api.views.doctor import Level
from tests.admin.admin_lab import AdminLab
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import until_state, worker
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.states import JobState


async def test_queues_have_the_facts_of_the_server_and_of_the_projection(lab: AdminLab) -> None:
    async with worker(lab.url, "work", "slow"):
        pass
    refs = await lab.jobs.work.create_many([Task(), Task()])
    await lab.jobs.mute.create(Task())
    assert len(refs) == 2

    async def has_arrived() -> bool:
        [found] = (await lab.client.list_queues(type="work")).entries
        return found.depth == 2 and (found.states or {}).get("pending") == 2

    await until(has_arrived, "both the work queue and the projection have the jobs")
    mute, slow, work = [queue async for queue in lab.client.queues(page=1)]
    assert (mute.name, mute.depth, mute.waiting, mute.unattended) == ("lab/mute", None, 1, True)
    assert (slow.name, slow.depth, slow.states, slow.drift) == ("lab/slow", 0, {}, ())
    assert (work.name, work.in_flight, work.free_slots, work.workers) == ("lab/work", 0, 0, 0)
    assert (work.unattended, work.paused, work.ack_wait_ms) == (True, False, 1000)
    assert work.oldest_age_ms is not None
    page = await lab.client.list_queues(service="lab", limit=2, offset=1)
    assert (page.count, [queue.name for queue in page.entries]) == (3, ["lab/slow", "lab/work"])
    assert (await lab.client.list_queues(service="nosuch")).entries == ()


async def test_a_queue_whose_jobs_have_all_ended_is_listed_on_request(lab: AdminLab) -> None:
    ref = await lab.jobs.mute.create(Task())
    changed = await lab.client.cancel(ref.id)
    assert (await lab.client.list_queues(min_seq=changed.seq)).entries == ()
    [mute] = (await lab.client.list_queues(min_seq=changed.seq, with_ended=True)).entries
    assert (mute.name, mute.states, mute.unattended) == ("lab/mute", {"cancelled": 1}, False)


async def test_a_paused_queue_starts_no_job_and_says_who_and_why(lab: AdminLab) -> None:
    async with worker(lab.url, "slow") as at_work:
        paused = await lab.client.pause_queue(
            "lab", "slow", reason="the bank is away", duration=timedelta(hours=1)
        )
        assert (paused.paused, paused.was_paused, paused.reason_error) == (True, False, None)
        assert paused.paused_until is not None
        ref = await at_work.jobs.slow.create(Task())

        async def is_waiting() -> bool:
            [found] = (await lab.client.list_queues(type="slow")).entries
            return found.depth == 1

        await until(is_waiting, "the job waits")
        [slow] = (await lab.client.list_queues(type="slow")).entries
        assert (slow.paused, slow.pause_reason, slow.unattended) == (
            True,
            "the bank is away",
            False,
        )
        assert slow.paused_until is not None
        assert abs(slow.paused_until - paused.paused_until) < timedelta(seconds=1)
        assert not at_work.runs
        resumed = await lab.client.resume_queue("lab", "slow")
        assert (resumed.paused, resumed.was_paused) == (False, True)
        await until_state(ref, JobState.COMPLETED)
    assert not (await lab.client.resume_queue("lab", "slow")).was_paused


async def test_a_pause_without_an_end_has_none_and_is_by_who_asks(lab: AdminLab) -> None:
    async with worker(lab.url, "slow"):
        pass
    body = {"service": "lab", "type": "slow", "reason": "for now"}
    told = await lab.stranger.ask("Jobs.PauseQueue", {**body, "by": "ann"})
    assert "pausedUntil" not in told
    [slow] = (await lab.client.list_queues(type="slow")).entries
    assert (slow.paused, slow.paused_until, slow.paused_by) == (True, None, "ann")
    await lab.stranger.ask("Jobs.PauseQueue", body, **{"session-key": "console"})
    [slow] = (await lab.client.list_queues(type="slow")).entries
    assert slow.paused_by == "console"


async def test_a_queue_that_never_had_a_worker_cannot_be_paused(lab: AdminLab) -> None:
    async with worker(lab.url, "slow"):
        pass
    for request in (
        lab.client.pause_queue("lab", "nosuch", reason="x"),
        lab.client.resume_queue("lab", "nosuch"),
    ):
        with pytest.raises(NotFound, match=r"there is no queue lab/nosuch: .*; queues: lab/slow"):
            await request


async def test_doctor_reports_what_the_admin_runtime_finds(lab: AdminLab) -> None:
    well = await lab.client.doctor()
    assert (well.ok, well.to_do, well.not_seen) == (True, (), ())
    assert [section.name for section in well.sections] == [
        "server",
        "streams",
        "queues",
        "alarms",
        "readers",
        "admin",
        "clock",
    ]
    async with worker(lab.url, "work"):
        pass
    await api.request(lab.stranger.connection, "STREAM.DELETE.JOBS_ADVISORIES")
    await lab.jobs.work.create(Task())

    async def is_unattended() -> bool:
        return "start workers for lab/work" in (await lab.client.doctor()).to_do

    await until(is_unattended, "the job waits for a worker")
    found = await lab.client.doctor()
    assert not found.ok
    streams = next(section for section in found.sections if section.name == "streams")
    [missing] = [each for each in streams.findings if "missing" in each.message]
    assert (missing.message, missing.level) == ("JOBS_ADVISORIES is missing", Level.BROKEN)
    [admin] = [section for section in found.sections if section.name == "admin"]
    assert any("streams is degraded" in each.message for each in admin.findings)
