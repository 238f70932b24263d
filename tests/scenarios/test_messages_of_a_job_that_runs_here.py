"""A worker that gets another message of a running job decides by the log, not by its memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.keys import work_lab
from tests.keys.work_lab import key_view
from tests.scenarios.test_stale_messages import put_back
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import Probe, probe, producer, until_state, worker
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState


async def newest(raw: Probe, ref: JobRef[Any]) -> Head:
    head = await raw.events.head(ref.address)
    assert head is not None
    return head


async def retry_by_an_operator(raw: Probe, ref: JobRef[Any], payload: dict[str, Any]) -> None:
    context, at = (await ref.get()).context, datetime.now(UTC)
    again = e.Retried(
        job=ref.address, context=context, at=at, tries=0, payload=payload, max_tries=3
    )
    assert isinstance(await raw.events.append(await newest(raw, ref), again), Head)


async def give_up_on_the_owner(raw: Probe, ref: JobRef[Any]) -> None:
    """What reconciliation does with an active job whose worker and message are gone (D18)."""
    job, head, at = await ref.get(), await newest(raw, ref), datetime.now(UTC)
    tries, owner = head.status.tries, head.status.owner
    lost = JobError(type=Interruption.WORK_LOST, message="its worker is gone", tries=tries, at=at)
    retry = e.RetryScheduled(
        job=ref.address, context=job.context, at=at, tries=tries, attempt=owner, error=lost
    )
    assert isinstance(await raw.events.append(head, retry), Head)
    await put_back(raw, ref, run=head.status.run)


async def test_a_retry_that_comes_while_the_first_run_still_leaves_its_key_is_run(
    server: EmbeddedServer,
) -> None:
    async with (
        work_lab.producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
        work_lab.worker(way.url, "calm") as working,
    ):

        def stall() -> Then:
            way.when_client_sends(rb"HPUB \$KV\.", lambda: Then.SWALLOW, uses=1000)
            return Then.FORWARD

        way.when_client_sends(rb"\.failed ", stall)
        ref = await jobs.calm.create(Task(do="give up"))
        await until_state(ref, JobState.FAILED)
        await retry_by_an_operator(raw, ref, Task().model_dump())

        async def delivered() -> bool:
            info = await work_lab.consumer_info(raw, jobs.calm)
            return int(info["delivered"]["consumer_seq"]) == 2

        await until(delivered, "the message of the second run is here")
        await raw.connection.flush()
        way.to_server.clear()
        assert (await ref.wait(timeout=20)).tries == 1
        assert working.begun == [ref.id, ref.id]
        await key_view(raw, jobs.calm).until_empty()
        await raw.until_empty()


async def test_a_worker_that_was_given_up_runs_the_message_that_was_put_back_for_its_job(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "slow") as bench,
    ):
        ref = await jobs.slow.create(Task(do="hang"))
        await bench.until_running(ref)
        await give_up_on_the_owner(raw, ref)
        assert (await ref.wait(timeout=20)).tries == 2
        assert bench.cancelled == [ref.id]
        await until_state(ref, JobState.COMPLETED)
        kinds = [k for k in await raw.kinds(ref) if k != EventKind.STALE_COMPLETION_IGNORED]
        assert kinds == ["created", "started", "retry", "started", "completed"]
