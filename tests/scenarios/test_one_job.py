"""What one job does, from create to its end, with nothing going wrong but the handler."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import probe, producer, until_state, worker
from tests.support.worker_process import worker_process
from trellis_jobs import (
    JobCancelled,
    JobDead,
    JobExists,
    JobExpired,
    JobFailed,
    JobIsOver,
    JobNotFound,
    WaitTimeout,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


async def test_a_job_runs_and_its_result_comes_back(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(text="hello"))
        report = await ref.wait(timeout=10)
        assert (report.text, report.tries) == ("hello", 1)
        assert await raw.kinds(ref) == ["created", "started", "completed"]
        await raw.until_empty()


async def test_a_failed_try_is_repeated_and_both_are_in_the_log(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.work.create(Task(do="fail once", text="boom"))
        assert (await ref.wait(timeout=10)).tries == 2
        job = await ref.get()
        assert [(error.type, error.message, error.tries) for error in job.errors] == [
            ("RuntimeError", "boom", 1)
        ]
        assert "raise RuntimeError" in (job.errors[0].traceback or "")


async def test_a_job_that_fails_every_try_is_dead_and_says_why(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="always fail", text="no disk"))
        with pytest.raises(JobDead, match="no disk"):
            await ref.wait(timeout=10)
        job = await ref.get()
        assert (job.tries, len(job.errors)) == (3, 3)
        assert await raw.kinds(ref) == [
            *("created", "started", "retry", "started", "retry", "started", "dead")
        ]
        await raw.until_empty()


async def test_without_dead_letters_the_last_failure_is_just_failed(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.plain.create(Task(do="always fail"))
        with pytest.raises(JobFailed):
            await ref.wait(timeout=10)


async def test_fail_ends_the_job_at_once(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="give up"))
        with pytest.raises(JobFailed, match="this cannot work"):
            await ref.wait(timeout=10)
        assert await raw.kinds(ref) == ["created", "started", "failed"]


async def test_a_permanent_exception_type_ends_the_job_at_once(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.picky.create(Task(do="key error"))
        with pytest.raises(JobFailed, match="KeyError"):
            await ref.wait(timeout=10)


async def test_retry_after_waits_as_long_as_the_handler_said(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.work.create(Task(do="later", seconds=0.3))
        await ref.wait(timeout=10)
        _, _, retry, started, _ = await ref.events()
        assert started.at - retry.at >= timedelta(seconds=0.3)


async def test_five_fast_failures_take_as_long_as_the_backoff_says(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.slow.create(Task(do="always fail"))
        with pytest.raises(JobDead):
            await ref.wait(timeout=10)
        events = await ref.events()
        gaps = [
            later.at - earlier.at
            for earlier, later in pairwise(events)
            if earlier.kind is EventKind.RETRY
        ]
        assert len(gaps) == 4
        assert all(gap >= timedelta(seconds=0.1) for gap in gaps)


async def test_a_hung_handler_with_a_timeout_is_stopped_and_tried_again(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.hasty.create(Task(do="hang"))
        assert (await ref.wait(timeout=10)).tries == 2
        assert bench.cancelled == [ref.id]
        assert [error.type for error in (await ref.get()).errors] == ["timeout"]


async def test_a_handler_ten_times_longer_than_its_lease_runs_once(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        await asyncio.sleep(10)  # the subject of the test: ten times ack_wait
        bench.go.set()
        await ref.wait(timeout=10)
        assert bench.runs == [(ref.id, 1)]
        assert await raw.kinds(ref) == ["created", "started", "completed"]


async def test_progress_and_log_lines_are_kept(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.work.create(Task(do="wait"))
        active = await bench.until_running(ref)
        await active.progress(current=1, total=3, step="fetch")

        async def noted() -> bool:
            return (await ref.get()).progress is not None

        await until(noted)
        await active.log("half way", level="warn")
        await active.progress(current=3, total=3)
        bench.go.set()
        await ref.wait(timeout=10)
        job = await ref.get()
        assert job.progress is not None
        assert (job.progress.current, job.progress.total) == (3, 3)
        assert [(line.level, line.message) for line in job.logs] == [("warn", "half way")]


async def test_a_thousand_notes_become_a_few_events_and_the_last_word_counts(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.work.create(Task(do="wait"))
        active = await bench.until_running(ref)
        for done in range(1000):
            active.progress(current=done, total=1000)
        bench.go.set()
        await ref.wait(timeout=10)
        assert len(await ref.events()) <= 6
        progress = (await ref.get()).progress
        assert progress is not None
        assert progress.current == 999


async def test_a_queue_without_progress_and_logs_writes_none(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, probe(server.url) as raw:
        ref = await bench.jobs.mute.create(Task(do="wait"))
        active = await bench.until_running(ref)
        await active.progress(current=1)
        await active.log("this is not kept")
        bench.go.set()
        await ref.wait(timeout=10)
        assert await raw.kinds(ref) == ["created", "started", "completed"]


async def test_cancel_from_elsewhere_stops_the_running_handler(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, producer(server.url) as elsewhere:
        ref = await bench.jobs.slow.create(Task(do="wait"))
        active = await bench.until_running(ref)
        await elsewhere.slow.ref(ref.id).cancel("no longer needed")
        await until(lambda: bench.cancelled == [ref.id])
        assert active.cancelled
        with pytest.raises(JobCancelled, match="no longer needed"):
            await ref.wait(timeout=10)


async def test_a_job_cancelled_before_it_starts_never_starts(server: EmbeddedServer) -> None:
    async with producer(server.url) as elsewhere, probe(server.url) as raw:
        ref = await elsewhere.work.create(Task())
        await ref.cancel()
        async with worker(server.url) as bench:
            await raw.until_empty()
            assert bench.runs == []
        assert await raw.kinds(ref) == ["created", "cancelled"]


async def test_cancelling_twice_is_fine_and_cancelling_a_finished_job_is_refused(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url) as bench, producer(server.url) as elsewhere:
        done = await bench.jobs.work.create(Task())
        await done.wait(timeout=10)
        with pytest.raises(JobIsOver, match="completed"):
            await done.cancel()
        waiting = await elsewhere.work.create(Task(do="wait"))
        await waiting.cancel()
        await waiting.cancel()
        with pytest.raises(JobNotFound):
            await elsewhere.work.ref("NOSUCHJOB").cancel()


async def test_a_job_past_its_deadline_never_starts(server: EmbeddedServer) -> None:
    async with producer(server.url) as elsewhere:
        past = datetime.now(UTC) - timedelta(seconds=1)
        ref = await elsewhere.work.create(Task(), deadline=past)
        async with worker(server.url) as bench:
            with pytest.raises(JobExpired):
                await ref.wait(timeout=10)
            assert bench.runs == []


async def test_waiting_gives_up_but_the_job_goes_on(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        with pytest.raises(WaitTimeout):
            await ref.wait(timeout=0.05)
        bench.go.set()
        await ref.wait(timeout=10)


async def test_watching_shows_every_step_to_the_end(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        ref = await bench.jobs.work.create(Task(do="fail once"))
        states = [job.state async for job in ref.watch()]
        assert states == ["pending", "active", "retry", "active", "completed"]


async def test_many_jobs_are_created_in_order_and_all_run(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench:
        refs = await bench.jobs.work.create_many([Task(text=str(n)) for n in range(300)])
        reports = [await ref.wait(timeout=20) for ref in refs]
        assert [report.text for report in reports] == [str(n) for n in range(300)]


async def test_a_chosen_job_id_can_be_used_once(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        await jobs.work.create(Task(), job_id="invoice-17")
        with pytest.raises(JobExists):
            await jobs.work.create(Task(), job_id="invoice-17")


async def test_an_operators_retry_runs_the_same_job_again_and_keeps_its_past(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url) as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="give up"))
        job = await until_state(ref, JobState.FAILED)
        head = await raw.events.head(ref.address)
        assert head is not None
        retried = e.Retried(
            job=ref.address,
            context=job.context,
            at=datetime.now(UTC),
            tries=0,
            payload={"do": "answer", "text": "again"},
            max_tries=2,
        )
        await raw.events.append(head, retried)
        assert (await ref.wait(timeout=10)).text == "again"
        job = await ref.get()
        assert (job.tries, job.max_tries, len(job.job.earlier_runs)) == (1, 2, 1)
        assert job.job.earlier_runs[0].errors[-1].type == "Fail"


async def test_a_handler_that_blocks_the_event_loop_past_its_lease_still_runs_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path, "work") as blocked:
            await blocked.until_ready()
            ref = await jobs.work.create(Task(do="block", seconds=3))
            await blocked.until_running(ref.id)
            async with worker(server.url, "work") as other:
                assert (await ref.wait(timeout=20)).tries == 1
                assert other.runs == []
        assert await raw.kinds(ref) == ["created", "started", "completed"]
