"""Which release ran a job is in its history, and operators can ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from jobs_admin.api.job_filter import JobFilter
from tests.admin.admin_lab import AdminLab
from tests.support.example_service import Task, task_worker
from tests.support.lab import LAB, until_state
from trellis_jobs import JobRef, Service, Workers
from trellis_jobs.model.events import Started
from trellis_jobs.model.states import JobState


async def _died_in(lab: AdminLab, version: str | None) -> JobRef[Any]:
    bench = task_worker(Service(LAB, version=version))
    async with bench.service.connect(lab.url, workers=Workers(queues=["single"])):
        ref = await bench.jobs.single.create(Task(do="always fail"))
        await until_state(ref, JobState.DEAD)
    return lab.jobs.single.ref(ref.id)


async def test_dead_jobs_are_found_by_the_release_that_broke_them(
    lab: AdminLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRELLIS_JOBS_APP_VERSION", raising=False)
    old = await _died_in(lab, "1.4.1")
    new = await _died_in(lab, "1.4.2")
    none = await _died_in(lab, None)
    for ref, version in ((old, "1.4.1"), (new, "1.4.2"), (none, None)):
        [event] = [each for each in await ref.events() if isinstance(each, Started)]
        assert event.app_version == version
        seq = (await lab.daemon.events.history(ref.address))[-1].sequence
        job = await lab.client.get(ref.id, min_seq=seq)
        assert event.attempt is not None
        assert (job.app_version, job.instance_id) == (version, event.attempt.instance)
        assert job.attempt is None, "the job is over, and its last worker is still known"
    found = await lab.client.list_dead(JobFilter(app_version="1.4.2"))
    assert [job.id for job in found.entries] == [new.id]
    groups = await lab.client.group_dead(JobFilter(app_version="1.4.1"))
    assert (groups.jobs, groups.entries[0].example_id) == (1, old.id)
    assert (await lab.client.list_jobs(JobFilter(app_version="1.4.3"))).count == 0


async def test_the_next_try_in_another_release_counts(lab: AdminLab) -> None:
    ref = await _died_in(lab, "1.4.1")
    await lab.client.retry(ref.id, reason="the new release fixes it")
    fixed = task_worker(Service(LAB, version="1.4.2"))
    async with fixed.service.connect(lab.url, workers=Workers(queues=["single"])):
        await until_state(ref, JobState.DEAD)
    seq = (await lab.daemon.events.history(ref.address))[-1].sequence
    job = await lab.client.get(ref.id, min_seq=seq)
    assert (job.app_version, [run.app_version for run in job.earlier_runs]) == ("1.4.2", ["1.4.1"])
    assert (await lab.client.list_dead(JobFilter(app_version="1.4.1"))).count == 0
