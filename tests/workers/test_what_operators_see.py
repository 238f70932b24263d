"""`explain`, `doctor` and `queues list` say what the records of workers say."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

from jobs_admin.api.client import AdminClient
from jobs_admin.api.reasons import Because
from jobs_admin.api.views.doctor import Level
from jobs_admin.api.views.jobs import ExplanationView
from jobs_admin.api.views.queues import QueueView
from jobs_admin.api.views.services import WorkerView
from jobs_admin.doctor.worker_rules import check_worker_records
from tests.cli.stage import Place
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import probe, producer
from tests.support.worker_process import worker_process
from tests.workers.records import registered_worker, until_record, write_directive
from tests.workers.test_dead_workers import admins
from tests.workers.test_directives import QUIET, RUNNING, TERMINATE, view
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import JobsError
from trellis_jobs.model.worker_states import WorkerState


async def until_explained(
    admin: AdminClient, ref: JobRef[Any], because: Because
) -> ExplanationView:
    async def found() -> ExplanationView | None:
        try:
            told = await admin.explain(ref.id)
        except JobsError:  # until the projection has the job
            return None
        return told if told.because is because else None

    return await until(found, f"{ref} is explained by {because}")


async def test_the_silence_and_death_of_a_worker_are_explained(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        admins(server.url, tmp_path),
        AdminClient.connect(server.url) as admin,
        probe(server.url) as raw,
    ):
        ref = await jobs.long.create(Task(do="wait"))
        with worker_process(server.url, tmp_path / "w", "long", dead_after=10) as frozen:
            await frozen.until_running(ref.id)
            stored = await until_record(raw, lambda r: r.active_jobs == 1, "it is reported")
            frozen.send(signal.SIGSTOP)
            silent = await until_explained(admin, ref, Because.WORKER_SILENT)
            name = f"{stored.record.profile.hostname}/{frozen.pid}"
            assert f"but its worker {name} has been silent for " in silent.sentence
            assert "; recovery in " in silent.sentence
            assert silent.until is not None
            (listed,) = [worker async for worker in admin.workers()]
            assert (listed.silent, listed.dead_at is not None) == (True, True)
            shown = await asyncio.to_thread(Place(server.url).shell, "doctor", "--json")
            assert f"worker {name} of lab: silent for" in shown.out
            await until_record(raw, lambda r: r.verdict is not None, "it is declared dead")
            shown = await asyncio.to_thread(Place(server.url).shell, "workers", "list")
            assert "declared dead" in shown.out


async def test_it_is_said_that_all_workers_of_a_queue_are_quiet(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        registered_worker(server.url, "work") as made,
        admins(server.url, tmp_path),
        AdminClient.connect(server.url) as admin,
        probe(server.url) as raw,
    ):
        await write_directive(raw, WorkerState.QUIET, reason="deploy")
        await until_record(raw, lambda r: r.state is WorkerState.QUIET, "the worker is quiet")
        ref = await made.jobs.work.create(Task())
        told = await until_explained(admin, ref, Because.NO_WORKER)
        assert "No worker takes jobs of the queue lab/work: 1 worker is quiet" in told.sentence
        assert "by ada: deploy" in told.sentence
        assert "`trellis-jobs workers resume --service lab`" in told.next

        async def known() -> QueueView | None:
            """In the first second of an admin runtime, it has not read all records."""
            (queue,) = [each async for each in admin.queues()]
            return None if queue.running_workers is None else queue

        queue = await until(known, "the workers of the queue are known")
        assert (queue.running_workers, queue.quiet_workers, queue.worker_slots) == (0, 1, 0)
        examined = await admin.doctor()
        assert "trellis-jobs workers resume --service lab" in " ".join(examined.to_do)


async def test_queues_show_their_workers_without_an_admin_runtime(server: EmbeddedServer) -> None:
    async with registered_worker(server.url, "work"):
        shown = await asyncio.to_thread(Place(server.url).shell, "queues", "list", "--json")
        (queue,) = shown.json["queues"]
        assert (queue["runningWorkers"], queue["quietWorkers"], queue["workerSlots"]) == (1, 0, 10)


def test_doctor_tells_what_is_wrong_with_workers() -> None:
    now = utc_now()
    queues = {"queues": [{"type": "work", "concurrency": 2}]}
    heartbeat = WorkerView(
        service="lab", job_type="work", instance_id="i9", timestamp=now, contract_digest="d"
    )
    foreign = heartbeat.model_copy(update={"contract_digest": None, "instance_id": "rust"})
    silence = {"silent": True, "silentForMs": 22_000, "deadAt": now + timedelta(seconds=8)}

    def says(*processes: Any, beats: tuple[WorkerView, ...] = ()) -> list[tuple[Level, str]]:
        found = check_worker_records(processes, beats, now)
        return [(finding.level, finding.message) for finding in found]

    assert says(view(RUNNING, RUNNING, 1, **queues)) == []
    assert says(view(RUNNING, RUNNING, 1, **queues, **silence)) == [
        (Level.WARNING, "worker host-3/812 of lab: silent for 22 s; recovery in 8 s")
    ]
    assert says(beats=(heartbeat, foreign)) == [(Level.WARNING, "worker i9 of lab has no record")]
    quiet, running = view(QUIET, QUIET, 1, **queues), view(RUNNING, QUIET, 1, **queues)
    [(level, words)] = says(quiet, quiet)
    assert (level, "lab/work: all 2 workers are quiet, so no job starts" in words) == (
        Level.WARNING,
        True,
    )
    assert says(quiet, running) == []
    assert says(view(TERMINATE, TERMINATE, 1, **queues)) == []
