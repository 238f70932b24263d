"""Keys that other runtimes also write: unknown fields and undecodable bytes are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from tests.keys.keyed_lab import Key, helpdesk, producer, worker, writes_to_keys
from tests.scenarios.test_strangers_write import CONTEXT
from tests.support.example_service import Task, example_jobs
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import (
    Coalesced,
    KeyConcurrency,
    KeyStateMalformed,
    QueueDepth,
    Rejected,
    Replaced,
    Service,
)
from trellis_jobs.contract.topology import WORK
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.states import JobState

LONG_AGO = "2026-03-28T12:00:00.000Z"


def foreign_state(key: Key, **fields: Any) -> bytes:
    """A state as the original runtimes write it."""
    key_policy = key.queue.key_policy
    assert key_policy is not None
    return json.dumps(
        {
            "version": 1,
            "service": "helpdesk",
            "jobType": key.queue.name,
            "key": key.job_key.display,
            "keyHash": key.job_key.hash,
            "maxActive": key_policy.max_active,
            "maxQueuedPerKey": key_policy.max_queued,
            "active": [],
            "queued": [],
            "staleTakeoverCount": 7,
            "updatedAt": LONG_AGO,
            "coalescedBySubmissionId": {"s-1": {"existingJobId": "A", "reason": "queue-full"}},
            "replacedBySubmissionId": {},
            **fields,
        }
    ).encode()


def foreign_waiting(job_id: str, **fields: Any) -> dict[str, Any]:
    return {"jobId": job_id, "createdAt": LONG_AGO, "requestId": "r-1", **fields}


async def test_what_other_runtimes_wrote_into_a_key_survives_all_that_is_done_to_it_here(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "roomy") as bench, probe(server.url) as raw:
        key = Key(raw, "roomy")
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        theirs = [
            foreign_waiting(
                "A", createdAt=now, context={**CONTEXT, "baggage": "b"}, submissionId="s-1"
            ),
            foreign_waiting("B", createdAt=now, priority={"class": 3}),
        ]
        await key.put(foreign_state(key, queued=theirs, shard=[1, 2]))
        ref = await bench.jobs.roomy.create(Task(do="wait"))
        gone = await bench.jobs.roomy.create(Task())
        await gone.cancel()
        await bench.until_running(ref)
        found = json.loads(await key.stored())
        assert [slot["jobId"] for slot in found["active"]] == [ref.id]
        assert found["queued"] == theirs
        bench.go.set()
        assert (await ref.wait(timeout=10)).tries == 1
        await until_inactive(key)
        found = json.loads(await key.stored())
        assert found["queued"] == theirs
        assert found["shard"] == [1, 2]
        assert found["coalescedBySubmissionId"]["s-1"]["existingJobId"] == "A"
        assert found["replacedBySubmissionId"] == {}
        assert found["staleTakeoverCount"] == 7


async def until_inactive(key: Key) -> None:
    async def released() -> bool:
        return not await key.active()

    await until(released, "the slot is released")


async def tell_created(raw: Probe, key: Key, job_id: str) -> None:
    """A job that a foreign runtime created."""
    body = {
        "jobId": job_id,
        "context": CONTEXT,
        "service": "helpdesk",
        "jobType": key.queue.name,
        "eventType": "created",
        "state": "pending",
        "tries": 0,
        "maxTries": 5,
        "payload": {"key": key.value},
        "timestamp": LONG_AGO,
    }
    subject = f"trellis.jobs.helpdesk.{key.queue.name}.{job_id}.created"
    answer = await raw.connection.request(subject, json.dumps(body).encode())
    assert "error" not in json.loads(answer.data)


async def test_a_place_that_another_runtime_took_counts_like_one_of_ours(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        for queue in ("strict", "newest"):
            key = Key(raw, queue)
            await tell_created(raw, key, "A")
            await key.put(foreign_state(key, queued=[foreign_waiting("A")]))
        rejected = await jobs.strict.submit(Task())
        assert isinstance(rejected, Rejected)
        assert rejected.existing_job_id == "A"
        replaced = await jobs.newest.submit(Task())
        assert isinstance(replaced, Replaced)
        assert replaced.replaced_job_id == "A"
        skipped = (await jobs.newest.ref("A").events())[-1]
        assert (skipped.kind, skipped.context.request_id) == ("skipped", CONTEXT["requestId"])


async def test_a_job_of_another_runtime_is_what_a_request_coalesces_into(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "coalesce")
        entries = [foreign_waiting(job_id, context=CONTEXT) for job_id in "ABCD"]
        for entry in entries:
            await tell_created(raw, key, entry["jobId"])
        await key.put(foreign_state(key, queued=entries))
        outcome = await jobs.coalesce.submit(Task())
        assert isinstance(outcome, Coalesced)
        assert outcome.existing.id == "A"
        assert (await outcome.existing.get()).payload == {"key": "acme"}


# The queue of the help helpdesk, shared with runtimes that write other fields.
SHARED: Final = example_jobs(
    "helpdesk",
    Task,
    int,
    newest={
        "ack_wait": 1,
        "shared": True,
        "key": KeyConcurrency(["tickets", "/key"]),
        "queue": QueueDepth(max_queued_per_key=0, when_full="replace-oldest"),
    },
)


async def test_on_a_shared_queue_the_whole_history_says_whether_a_job_can_make_way(
    server: EmbeddedServer,
) -> None:
    service = Service(SHARED)
    async with service.connect(server.url, workers=False), probe(server.url) as raw:
        old = await service.jobs.newest.create(Task())
        note = {
            "jobId": old.id,
            "context": CONTEXT,
            "service": "helpdesk",
            "jobType": "newest",
            "eventType": "logged",
            "state": "completed",
            "tries": 1,
            "runSeq": 1,
            "maxTries": 5,
            "timestamp": LONG_AGO,
        }
        await raw.connection.request(
            f"trellis.jobs.helpdesk.newest.{old.id}.logged", json.dumps(note).encode()
        )
        outcome = await service.jobs.newest.submit(Task())
        assert isinstance(outcome, Replaced)
        assert outcome.replaced_job_id == old.id
        assert (await old.get()).state is JobState.SKIPPED


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"active": "none"},
        {"queued": [{"jobId": "A"}]},
        {"maxActive": 0},
        {"keyHash": "0" * 64},
    ],
    ids=str,
)
async def test_an_inconsistent_state_is_an_error_for_the_caller_and_stays_unchanged(
    server: EmbeddedServer, change: dict[str, Any]
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "newest")
        broken = foreign_state(key, **change)
        await key.put(broken)
        before = await writes_to_keys(raw)
        with pytest.raises(KeyStateMalformed, match="tickets:acme"):
            await jobs.newest.create(Task(), job_id="refused")
        with pytest.raises(KeyStateMalformed):
            await jobs.newest.submit(Task())
        assert await key.stored() == broken
        assert await writes_to_keys(raw) == before
        assert await raw.kinds(jobs.newest.ref("refused")) == []
        await jobs.newest.create(Task(key="globex"))


async def test_a_worker_lives_with_a_state_that_makes_no_sense_and_its_job_loses_no_try(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = Key(raw, "strict")
        ref = await jobs.strict.create(Task())
        whole = await key.stored()
        await key.put(b"\x00 no state")
        async with worker(server.url, "strict") as bench:
            other = await jobs.strict.create(Task(key="globex"))
            assert (await other.wait(timeout=10)).tries == 1
            await until_handed_back(raw, "helpdesk-strict")
            assert await raw.kinds(ref) == ["created"]
            assert await key.stored() == b"\x00 no state"
            await key.put(whole)
            assert (await ref.wait(timeout=15)).tries == 1
            assert bench.begun == [other.id, ref.id]
            await key.until_free()


async def until_handed_back(raw: Probe, consumer: str) -> None:
    """Delivered, and to be delivered again."""

    async def handed_back() -> bool:
        info = await api.request(raw.connection, f"CONSUMER.INFO.{WORK}.{consumer}")
        return bool(info["num_ack_pending"] == 1 and info["delivered"]["consumer_seq"] >= 2)

    await until(handed_back, "the job of the broken key waits for another delivery")
