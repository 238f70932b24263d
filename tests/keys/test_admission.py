"""A job whose key may be full has one of four outcomes, each with all details."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests import given
from tests.keys.keyed_lab import (
    Key,
    events_in_log,
    helpdesk,
    reserved,
    worker,
    writes_to_keys,
)
from tests.support.example_service import Report, Task
from tests.support.lab import Probe, probe
from trellis_jobs import (
    Accepted,
    Coalesced,
    JobRef,
    KeyBusy,
    KeyUnresolvable,
    NotAdmitted,
    QueueFull,
    Rejected,
    Replaced,
    SomeNotCreated,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import JobSkipped
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.values import replace


async def stored(raw: Probe, ref: JobRef[Report], kind: EventKind) -> Message:
    subject = subjects.lifecycle(ref.address, kind)
    return await raw.connection.request(f"$JS.API.DIRECT.GET.JOBS.{subject}")


async def body(raw: Probe, ref: JobRef[Report], kind: EventKind) -> dict[str, object]:
    """An event as it is on the wire."""
    found: dict[str, object] = json.loads((await stored(raw, ref, kind)).data)
    return found


async def batch(raw: Probe, ref: JobRef[Report], kind: EventKind) -> str | None:
    """The atomic batch in which the server took an event in."""
    return ((await stored(raw, ref, kind)).headers or {}).get("Nats-Batch-Id")


async def test_a_payload_without_its_key_is_refused_by_the_pointer_and_leaves_no_trace(
    server: EmbeddedServer,
) -> None:
    without_key = Task(key=None)
    async with helpdesk(server.url) as (jobs, raw):
        with pytest.raises(KeyUnresolvable, match="'/key'") as refused:
            await jobs.strict.create(without_key)
        assert refused.value.pointer == "/key"
        with pytest.raises(KeyUnresolvable):
            await jobs.strict.submit(without_key)
        with pytest.raises(KeyUnresolvable):
            await jobs.strict.create_many([Task(), without_key])
        assert (await writes_to_keys(raw), await events_in_log(raw)) == (0, 0)


async def test_an_accepted_job_says_its_key_and_has_its_place_with_its_own_context(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        outcome = await jobs.strict.submit(Task())
        assert isinstance(outcome, Accepted)
        key = Key(raw, "strict")
        created = await body(raw, outcome.ref, EventKind.CREATED)
        assert created["queuePolicy"] == {"outcome": "accepted"}
        assert created["concurrency"] == {"key": "tickets:acme", "keyHash": key.job_key.hash}
        (entry,) = json.loads(await key.stored())["queued"]
        assert entry["jobId"] == outcome.ref.id
        assert entry["createdAt"] == created["timestamp"]
        assert entry["context"] == created["context"]


async def test_a_key_that_lets_nothing_wait_says_which_job_is_there_before(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        first = await jobs.strict.create(Task())
        with pytest.raises(KeyBusy, match=r"'tickets:acme' has no room for a new job") as refused:
            await jobs.strict.create(Task())
        assert _told(refused.value) == ("tickets:acme", "active-limit", 0, 1, 1, first.id)
        assert not refused.value.coalesced
        rejected = await jobs.strict.submit(Task())
        assert rejected == Rejected(
            key="tickets:acme",
            reason="active-limit",
            active=0,
            queued=1,
            limit=1,
            existing_job_id=first.id,
        )
        assert await events_in_log(raw) == 1
        assert await Key(raw, "strict").queued() == [first.id]


async def test_a_queue_that_is_full_says_how_many_run_and_how_many_wait(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "patient") as bench, probe(server.url) as raw:
        running = await bench.jobs.patient.create(Task(do="wait"))
        await bench.until_running(running)
        waiting = await bench.jobs.patient.create(Task())
        with pytest.raises(QueueFull) as refused:
            await bench.jobs.patient.create(Task())
        assert _told(refused.value) == ("tickets:acme", "queue-depth", 1, 1, 1, waiting.id)
        key = Key(raw, "patient")
        assert (await key.active(), await key.queued()) == ([running.id], [waiting.id])
        bench.go.set()
        assert (await waiting.wait(timeout=10)).tries == 1
        assert isinstance(await bench.jobs.patient.submit(Task()), Accepted)


async def test_a_full_key_does_not_affect_another(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, _):
        await jobs.strict.create(Task(key="acme"))
        assert isinstance(await jobs.strict.submit(Task(key="globex")), Accepted)
        assert isinstance(await jobs.patient.submit(Task(key="acme")), Accepted)
        assert isinstance(await jobs.strict.submit(Task(key="acme")), Rejected)


@pytest.mark.parametrize(
    ("lease", "reason", "kind"),
    [(-1, "stale-blocked", KeyBusy), (60, "queue-depth", QueueFull)],
    ids=["overdue", "in time"],
)
async def test_a_key_that_a_stale_holder_blocks_says_so(
    server: EmbeddedServer, lease: float, reason: str, kind: type[NotAdmitted]
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        holder = await jobs.blocking.create(Task())
        second = await jobs.blocking.create(Task())
        key, ends = Key(raw, "blocking"), datetime.now(UTC) + timedelta(seconds=lease)
        await key.put(
            replace(
                key.empty,
                active=(given.slot(holder.id, expires_at=ends),),
                queued=(reserved(second.id),),
            )
        )
        with pytest.raises(kind) as refused:
            await jobs.blocking.create(Task())
        assert _told(refused.value) == ("tickets:acme", reason, 1, 1, 1, second.id)


async def test_a_coalesced_request_is_the_job_that_waits_and_makes_no_other(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        first, *others = [await jobs.coalesce.create(Task()) for _ in range(4)]
        before = await writes_to_keys(raw)
        outcome = await jobs.coalesce.submit(Task(text="the same again"))
        assert isinstance(outcome, Coalesced)
        assert (outcome.existing.id, outcome.key) == (first.id, "tickets:acme")
        with pytest.raises(QueueFull, match=f"coalesces it with job {first.id}") as refused:
            await jobs.coalesce.create(Task())
        assert refused.value.coalesced
        assert _told(refused.value) == ("tickets:acme", "queue-depth", 0, 4, 3, first.id)
        assert await events_in_log(raw) == 1 + len(others)
        assert await writes_to_keys(raw) == before


async def test_what_a_coalesced_request_returns_can_be_waited_for(server: EmbeddedServer) -> None:
    async with worker(server.url, "coalesce") as bench:
        running = await bench.jobs.coalesce.create(Task(do="wait"))
        await bench.until_running(running)
        waiting = [await bench.jobs.coalesce.create(Task()) for _ in range(3)]
        outcome = await bench.jobs.coalesce.submit(Task())
        assert isinstance(outcome, Coalesced)
        assert outcome.existing.id == waiting[0].id
        bench.go.set()
        assert (await outcome.existing.wait(timeout=10)).tries == 1


async def test_the_newest_job_takes_the_place_of_the_oldest_in_one_step(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        old = await jobs.replace.create(Task(text="old"))
        other = await jobs.replace.create(Task(text="other"))
        outcome = await jobs.replace.submit(Task(text="new"))
        assert isinstance(outcome, Replaced)
        assert outcome.replaced_job_id == old.id
        created = await body(raw, outcome.ref, EventKind.CREATED)
        skipped = await body(raw, old, EventKind.SKIPPED)
        assert created["queuePolicy"] == {
            "outcome": "replaced",
            "reason": "replace-oldest",
            "replacedJobId": old.id,
        }
        assert skipped["context"] == (await body(raw, old, EventKind.CREATED))["context"]
        assert skipped["context"] != created["context"]
        assert outcome.ref.id in str(skipped["error"])
        first = await batch(raw, old, EventKind.SKIPPED)
        assert first is not None
        assert first == await batch(raw, outcome.ref, EventKind.CREATED)
        assert await batch(raw, other, EventKind.CREATED) is None
        ends = [(await raw.events.history(ref.address))[-1].sequence for ref in (old, outcome.ref)]
        assert sorted(ends) == [3, 4]
        assert await Key(raw, "replace").queued() == [other.id, outcome.ref.id]
        with pytest.raises(JobSkipped, match=outcome.ref.id):
            await old.wait(timeout=10)


async def test_create_returns_the_job_that_replaced_another(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        old = await jobs.newest.create(Task())
        new = await jobs.newest.create(Task())
        assert await raw.kinds(old) == ["created", "skipped"]
        assert await raw.kinds(new) == ["created"]


async def test_a_job_that_runs_is_never_replaced(server: EmbeddedServer) -> None:
    async with worker(server.url, "newest") as bench, probe(server.url) as raw:
        running = await bench.jobs.newest.create(Task(do="wait"))
        await bench.until_running(running)
        rejected = await bench.jobs.newest.submit(Task())
        assert isinstance(rejected, Rejected)
        assert (rejected.reason, rejected.existing_job_id) == ("active-limit", running.id)
        assert (rejected.active, rejected.queued, rejected.limit) == (1, 0, 1)
        bench.go.set()
        assert (await running.wait(timeout=10)).tries == 1
        assert await raw.kinds(running) == ["created", "started", "completed"]


async def test_of_several_jobs_at_once_those_that_found_no_room_are_named(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        origins = ["acme", "acme", "globex", "acme"]
        with pytest.raises(SomeNotCreated) as partly:
            await jobs.strict.create_many([Task(key=origin) for origin in origins])
        assert sorted(partly.value.created) == [0, 2]
        assert sorted(partly.value.failed) == [1, 3]
        assert all(isinstance(error, KeyBusy) for error in partly.value.failed.values())
        assert await events_in_log(raw) == 2


async def test_what_runs_says_under_which_key_and_until_when(server: EmbeddedServer) -> None:
    async with worker(server.url, "strict") as bench, probe(server.url) as raw:
        ref = await bench.jobs.strict.create(Task(do="wait"))
        active = await bench.until_running(ref)
        assert active.key == "tickets:acme"
        started = await body(raw, ref, EventKind.STARTED)
        (slot,) = json.loads(await Key(raw, "strict").stored())["active"]
        concurrency = started["concurrency"]
        assert isinstance(concurrency, dict)
        assert (concurrency["key"], concurrency["slotToken"]) == ("tickets:acme", slot["slotToken"])
        assert {"keyHash", "heartbeatAt", "leaseExpiresAt"} < concurrency.keys()


def _told(refusal: NotAdmitted) -> tuple[str, str, int, int, int, str]:
    return (
        refusal.key,
        refusal.reason,
        refusal.active,
        refusal.queued,
        refusal.limit,
        refusal.existing_job_id,
    )
