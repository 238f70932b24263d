"""Keys as operators see and steer them, and keys in which something was left behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.maintenance.key_repair import plan_repair, removable
from jobs_admin.projection.store import Projection
from jobs_admin.reads.job_filter import shared_conditions
from jobs_admin.reads.keys import busy_query
from jobs_admin.reads.readers import Readers
from tests import given
from tests.admin.admin_lab import until_projected
from tests.admin.upkeep_lab import (
    KeyView,
    ask,
    key_view,
    looking_after,
    producer,
    purge,
    until_kind,
    until_swept,
    ward_process,
    worker,
)
from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import ENQUEUED, OVER, JobState
from trellis_jobs.model.values import replace

ACME = {"service": "ward", "type": "keyed", "key": "ward:acme"}


# Retries of keyed jobs


@pytest.mark.parametrize("method", ["Jobs.Retry", "Jobs.ReplayDLQ"])
async def test_a_retried_job_waits_for_its_key_again_and_runs(
    server: EmbeddedServer, tmp_path: Path, method: str
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.keyed)
        dead = await a_dead_job(raw, server.url)
        assert not (await key.read()).is_queued(dead.id)
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            answer = await ask(raw, method, {"id": dead.id, "by": "ann"})
            assert answer["job"]["state"] == "pending"
            assert (await key.read()).is_queued(dead.id)
            async with worker(server.url, "keyed") as ward:
                ward.go.set()
                await until_kind(raw, dead, EventKind.COMPLETED)
            await key.until_empty()


async def a_dead_job(raw: Probe, url: str) -> JobRef[Report]:
    async with worker(url, "keyed") as ward:
        ref = await ward.jobs.keyed.create(Task(do="wait"))
        await ward.until_running(ref)
        head = await raw.events.head(ref.address)
        assert head is not None
        context = (await raw.events.history(ref.address))[0].event.context
        ended = e.Dead(
            job=ref.address,
            context=context,
            at=datetime.now(UTC),
            tries=1,
            attempt=None,
            error=given.error(),
        )
        await raw.events.append(head, ended)
        await until(lambda: ref.id in ward.cancelled, "its handler was told")
        ward.go.set()
    key = key_view(raw, ward.jobs.keyed)
    await key.until_empty()
    await raw.until_empty()
    return ref


async def test_an_operators_retry_is_let_in_though_its_key_is_full(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        dead = await a_dead_job(raw, server.url)
        waiting = [await jobs.keyed.create(Task()) for _ in range(2)]
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            await ask(raw, "Jobs.Retry", {"id": dead.id})
            queued = [each.job_id for each in (await key_view(raw, jobs.keyed).read()).queued]
            assert queued == [*(ref.id for ref in waiting), dead.id]


async def test_a_retry_that_comes_to_nothing_leaves_nothing_in_the_key(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with worker(server.url, "keyed") as ward, probe(server.url) as raw:
        ref = await ward.jobs.keyed.create(Task())
        await ref.wait(timeout=10)
        key = key_view(raw, ward.jobs.keyed)
        await key.until_empty()
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            refused = await ask(raw, "Jobs.Retry", {"id": ref.id})
            assert refused["type"] == "ValidationError"
            await key.until_empty()


async def test_an_operators_cancel_takes_a_waiting_job_out_of_its_key(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.keyed.create(Task())
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            await ask(raw, "Jobs.Cancel", {"id": ref.id})
            assert (await key_view(raw, jobs.keyed).read()).queued == ()


# Looking at keys


async def test_a_key_is_shown_with_its_holder_and_those_who_wait(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "keyed") as ward,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        running = await ward.jobs.keyed.create(Task(do="wait"))
        await ward.until_running(running)
        waiting = await ward.jobs.keyed.create(Task())
        newest = (await raw.events.history(waiting.address))[-1].sequence
        shown = await ask(raw, "Jobs.GetKey", {**ACME, "minSeq": newest})
        (holder,) = shown["active"]
        slot = (await key_view(raw, ward.jobs.keyed).read()).slot_of(running.id)
        assert slot is not None
        assert (holder["jobId"], holder["instanceId"]) == (running.id, slot.instance)
        assert 0 <= holder["heartbeatAgeMs"] < 5_000
        assert holder["leaseExpiresAt"] > holder["heartbeatAt"] >= holder["startedAt"]
        assert [each["jobId"] for each in shown["queued"]] == [waiting.id]
        assert (shown["queuedDepth"], shown["staleTakeoverCount"]) == (1, 0)
        assert (shown["service"], shown["type"], shown["key"]) == ("ward", "keyed", "ward:acme")
        by_hash = await ask(raw, "Jobs.GetKey", {**ACME, "key": shown["keyHash"]})
        assert by_hash["queued"] == shown["queued"]
        assert daemon.loops.all["key repair"].failures == 0


@pytest.mark.parametrize(
    "asked",
    [
        {**ACME, "key": "unknown"},
        {**ACME, "key": "0" * 64},
        {**ACME, "type": "other"},
        {**ACME, "key": "ward:acme' OR 1=1 --"},
    ],
)
async def test_a_key_that_no_job_used_is_not_found(
    server: EmbeddedServer, tmp_path: Path, asked: dict[str, Any]
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        await jobs.keyed.create(Task())
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            refused = await ask(raw, "Jobs.GetKey", asked)
        assert refused["type"] == "NotFoundError"
        assert refused["jobId"] == f"{asked['service']}/{asked['type']}/{asked['key']}"


async def test_keys_that_look_the_same_are_told_apart_by_their_hash(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        mine = await jobs.keyed.create(Task())
        created = (await raw.events.history(mine.address))[0].event
        assert isinstance(created, e.Created)
        assert created.concurrency is not None
        twin = JobAddress("ward", "keyed", "twin")
        other = replace(created.concurrency, key_hash="f" * 64)
        await raw.events.try_append(None, replace(created, job=twin, concurrency=other))
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            refused = await ask(raw, "Jobs.GetKey", ACME)
            assert refused["type"] == "ValidationError"
            assert refused["hashes"] == sorted([created.concurrency.key_hash, "f" * 64])
            by_hash = {**ACME, "key": created.concurrency.key_hash}
            assert (await ask(raw, "Jobs.GetKey", by_hash))["queuedDepth"] == 1


async def test_busy_keys_are_listed_page_by_page_the_busiest_first(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        for key, count in (("a", 1), ("b", 2), ("c", 1)):
            for _ in range(count):
                await jobs.keyed.create(Task(key=key))
        gone = await jobs.keyed.create(Task(key="gone"))
        await gone.cancel()
        await jobs.plain.create(Task())
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            first = await ask(raw, "Jobs.ListKeys", {"limit": 2})
            second = await ask(raw, "Jobs.ListKeys", {"limit": 2, "offset": first["nextOffset"]})
            other = await ask(raw, "Jobs.ListKeys", {"limit": 2, "type": "plain"})
    listed = [(each["key"], each["waiting"]) for each in (*first["entries"], *second["entries"])]
    assert listed == [("ward:b", 2), ("ward:a", 1), ("ward:c", 1)]
    assert (first["count"], "nextOffset" in second, other["count"]) == (3, False, 0)


async def test_busy_keys_are_listed_with_the_jobs_that_hold_them(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "keyed") as ward,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url) as client,
    ):
        running = await ward.jobs.keyed.create(Task(do="wait"))
        await ward.until_running(running)
        await ward.jobs.keyed.create(Task())

        async def is_known() -> bool:
            return [(key.active, key.waiting) async for key in client.busy_keys()] == [(1, 1)]

        await until(is_known, "the projection has the job that runs and the one that waits")
        [key] = (await client.list_keys()).entries
        whole = await client.get_key("ward", "keyed", key.key)
        assert key.max_active == whole.max_active == 1
        assert key.holders is not None
        [holder] = key.holders
        assert (holder.job_id, holder.instance_id) == (running.id, whole.active[0].instance_id)
        assert holder.lease_expires_at > holder.started_at
        ward.go.set()


async def test_a_key_whose_state_cannot_be_read_is_listed_without_its_holders(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        await jobs.keyed.create(Task())
        key = key_view(raw, jobs.keyed)
        await raw.connection.request(subjects.key_state(key.empty.address), b"{", timeout=5)
        async with (
            looking_after(server.url, tmp_path / "jobs.sqlite"),
            AdminClient.connect(server.url) as client,
        ):
            [listed] = (await client.list_keys()).entries
    assert (listed.waiting, listed.holders, listed.max_active) == (1, None, None)


@pytest.mark.parametrize("narrowed", [{}, {"service": "ward"}, {"type": "keyed"}])
async def test_busy_keys_are_listed_in_the_order_of_an_index(
    tmp_path: Path, narrowed: dict[str, Any]
) -> None:
    async with Projection.open(tmp_path / "jobs.sqlite"):
        pass
    async with Readers.open(tmp_path / "jobs.sqlite") as readers:
        of = shared_conditions(JobFilter(**narrowed))
        plan = f"EXPLAIN QUERY PLAN {busy_query(of)}"
        steps = await readers.rows(plan, (*of.values, 50, 0))
    assert [step[-1].split(" INDEX ")[-1] for step in steps] == ["keys_by_waiters"]


async def test_keys_that_are_freed_in_the_loop_hide_no_others(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs:
        waiting = {f"ward:{key}": await jobs.keyed.create(Task(key=key)) for key in "abcde"}
        told = []
        async with (
            looking_after(server.url, tmp_path / "jobs.sqlite"),
            AdminClient.connect(server.url) as client,
        ):
            async for key in client.busy_keys(page=1):
                await client.cancel(waiting[key.key].address)
                told.append(key.key)
    assert told == list(waiting)


# Releasing a blocked key


async def a_blocked_key(url: str, raw: Probe, folder: Path) -> tuple[KeyView, JobRef[Report]]:
    """Its holder was killed, and its queue's policy is to wait for an operator."""
    async with producer(url) as jobs:
        ref, key = await jobs.blocked.create(Task()), key_view(raw, jobs.blocked)
        with ward_process(url, folder, "blocked") as process:
            await process.until_begun(ref)
            process.kill()
    return key, ref


BLOCKED = {"service": "ward", "type": "blocked", "key": "ward:acme", "by": "ann"}


async def until_released(raw: Probe, body: dict[str, Any]) -> dict[str, Any]:
    async def released() -> dict[str, Any] | None:
        answer = await ask(raw, "Jobs.ReleaseKey", body)
        assert answer.get("type") == "ValidationError" or "seq" in answer, answer
        return answer if "seq" in answer else None

    return await until(released, "its lease is over")


# The admin runtime's clock, as it is told by that of the server.
CLOCKS = {
    "on time": timedelta(0),
    "ahead": timedelta(minutes=2),
    "behind": -timedelta(minutes=2),
}
whatever_the_time = pytest.mark.parametrize("ahead", CLOCKS.values(), ids=CLOCKS.keys())


@whatever_the_time
async def test_a_blocked_key_is_released_and_the_next_job_runs(
    server: EmbeddedServer, tmp_path: Path, ahead: timedelta
) -> None:
    async with probe(server.url) as raw:
        key, ref = await a_blocked_key(server.url, raw, tmp_path / "worker")
        async with looking_after(server.url, tmp_path / "jobs.sqlite", ahead=ahead):
            body = {**BLOCKED, "jobId": ref.id, "reason": "its machine burnt down"}
            shown = await until_released(raw, body)
            assert (shown["active"], shown["staleTakeoverCount"]) == ([], 1)
            assert await raw.kinds(ref) == ["created", "started", "stale"]
            _, started, stale = [entry.event for entry in await raw.events.history(ref.address)]
            assert isinstance(stale, e.Stale)
            assert isinstance(started, e.Started)
            assert stale.attempt == started.attempt
            assert "released by ann: its machine burnt down" in stale.error.message
            async with worker(server.url, "blocked") as ward:
                assert (await (await ward.jobs.blocked.create(Task())).wait(timeout=10)).tries == 1
            again = await ask(raw, "Jobs.ReleaseKey", body)
            assert again["type"] == "ValidationError"
            assert "does not hold" in again["message"]
            assert (await key.read()).stale_takeovers == 1


@whatever_the_time
async def test_a_key_whose_holder_lives_is_not_released(
    server: EmbeddedServer, tmp_path: Path, ahead: timedelta
) -> None:
    async with (
        worker(server.url, "blocked") as ward,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite", ahead=ahead) as daemon,
    ):
        ref = await ward.jobs.blocked.create(Task(do="wait"))
        await ward.until_running(ref)
        newest = (await raw.events.history(ref.address))[-1].sequence
        await until_projected(daemon, newest)
        waits = await ward.jobs.blocked.create(Task())
        told = await ask(raw, "Jobs.Explain", {"id": waits.id})
        assert told["because"] == "waiting-for-key"
        assert [holder["isExpired"] for holder in told["details"]["holders"]] == [False]
        refused = await ask(raw, "Jobs.ReleaseKey", {**BLOCKED, "jobId": ref.id})
        assert refused["type"] == "ValidationError"
        assert "cancel it" in refused["message"]
        assert await raw.kinds(ref) == ["created", "started"]
        ward.go.set()
        assert (await ref.wait(timeout=10)).tries == 1


async def test_a_slot_that_was_left_long_ago_is_released_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A new daemon need not watch it first: the server knows how old the key is."""
    async with probe(server.url) as raw:
        key, ref = await a_blocked_key(server.url, raw, tmp_path / "worker")
        slot = await key.until_held_by(ref)
        over = slot.expires_at + timedelta(milliseconds=100)
        await until(lambda: datetime.now(UTC) > over, "its lease is over")
        mode = {"reconcile_interval": timedelta(hours=1)}
        async with looking_after(server.url, tmp_path / "jobs.sqlite", **mode):
            answer = await ask(raw, "Jobs.ReleaseKey", {**BLOCKED, "jobId": ref.id})
            assert answer.get("active") == [], answer


async def test_a_dead_slot_is_released_though_others_write_under_the_key(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The key never rests, so that only who watches the slot itself can tell."""
    async with probe(server.url) as raw:
        key, ref = await a_blocked_key(server.url, raw, tmp_path / "worker")
        mode = {"reconcile_interval": timedelta(hours=1)}
        async with looking_after(server.url, tmp_path / "jobs.sqlite", **mode):
            body = {**BLOCKED, "jobId": ref.id}
            arrivals = count()

            async def released() -> bool:
                state, now = await key.read(), datetime.now(UTC)
                newcomer = given.waiting(f"newcomer-{next(arrivals)}", created_at=now)
                await key.write(replace(state, queued=(newcomer,)))
                return "seq" in await ask(raw, "Jobs.ReleaseKey", body)

            await until(released, "its lease is over")
        assert await raw.kinds(ref) == ["created", "started", "stale"]


async def test_releasing_a_slot_whose_job_is_over_is_noted_too(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with probe(server.url) as raw, producer(server.url) as jobs:
        ref, key = await jobs.blocked.create(Task()), key_view(raw, jobs.blocked)
        await ref.cancel()
        now = datetime.now(UTC)
        left = given.slot(ref.id, heartbeat_at=now, expires_at=now + timedelta(milliseconds=50))
        await key.write(replace(await key.read(), active=(left,)))
        async with looking_after(
            server.url, tmp_path / "jobs.sqlite", reconcile_interval=timedelta(hours=1)
        ):
            shown = await until_released(raw, {**BLOCKED, "jobId": ref.id})
            assert (shown["active"], shown["staleTakeoverCount"]) == ([], 0)
        kinds = await raw.kinds(ref)
        assert kinds == ["created", "cancelled", "staleCompletionIgnored"]
        note = (await raw.events.history(ref.address))[-1].event
        assert isinstance(note, e.StaleCompletionIgnored)
        assert "released by ann" in note.reason


async def test_a_key_is_found_by_its_name_though_its_jobs_have_left_the_log(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref, key = await jobs.keyed.create(Task()), key_view(raw, jobs.keyed)
        await key.read()
        await purge(raw, "JOBS")
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            for name in ("ward:acme", (await key.read()).address.hash):
                shown = await ask(raw, "Jobs.GetKey", {**ACME, "key": name})
                assert [each["jobId"] for each in shown["queued"]] == [ref.id]
            for wrong in ({"key": "ward:unknown"}, {"type": "blocked"}):
                refused = await ask(raw, "Jobs.GetKey", {**ACME, **wrong})
                assert refused["type"] == "NotFoundError"
            await jobs.keyed.create(Task(key="another"))
            shown = await ask(raw, "Jobs.GetKey", {**ACME, "key": "ward:another"})
            assert shown["queuedDepth"] == 1


# What was left behind


@pytest.mark.parametrize("state", sorted(OVER))
def test_a_job_that_is_over_is_taken_out_of_its_key(state: JobState) -> None:
    left = given.key_state(active=(given.slot("a"),), queued=(given.waiting("b"),))
    over = given.status_in(state)
    plan = plan_repair(left, {"a": over, "b": over}, frozenset({given.FIRST.id}), given.after(60))
    assert plan is not None
    assert (plan.jobs, plan.slots) == (frozenset({"a", "b"}), left.active)


@pytest.mark.parametrize("state", sorted(ENQUEUED))
def test_a_job_that_lives_keeps_its_place(state: JobState) -> None:
    left = given.key_state(active=(given.slot("a"),), queued=(given.waiting("b"),))
    lives = given.status_in(state)
    judged = {"a": lives, "b": lives}
    assert plan_repair(left, judged, frozenset({given.FIRST.id}), given.after(600)) is None
    assert plan_repair(left, {}, frozenset({given.FIRST.id}), given.after(600)) is None


def test_a_slot_that_is_still_renewed_is_left_to_its_handler() -> None:
    left = given.key_state(active=(given.slot("a"),))
    over = given.status_in(JobState.CANCELLED)
    assert plan_repair(left, {"a": over}, frozenset(), given.after(600)) is None


def test_a_job_that_waits_again_gets_a_moment_until_the_log_says_so() -> None:
    """An operator's retry lets it into its key first."""
    left = given.key_state(queued=(given.waiting("b"),))
    over = given.status_in(JobState.DEAD)
    assert plan_repair(left, {"b": over}, frozenset(), given.after(9)) is None
    assert plan_repair(left, {"b": over}, frozenset(), given.after(11)) is not None


def test_a_reservation_gets_a_minute_to_become_a_job() -> None:
    left = given.key_state(queued=(given.waiting("b"),))
    assert plan_repair(left, {"b": None}, frozenset(), given.after(59)) is None
    assert plan_repair(left, {"b": None}, frozenset(), given.after(61)) is not None


def test_a_job_that_was_moved_to_a_later_time_gives_its_place_to_others() -> None:
    """Just before it is released it has one again."""
    left = given.key_state(active=(given.slot("b"),), queued=(given.waiting("b"),))
    delayed, expired = {"b": given.status_in(JobState.SCHEDULED)}, frozenset({given.FIRST.id})
    assert plan_repair(left, delayed, expired, given.after(59)) is None
    plan = plan_repair(left, delayed, expired, given.after(61))
    assert plan is not None
    assert (plan.jobs, plan.slots) == (frozenset({"b"}), ())


def test_the_log_is_asked_only_about_jobs_that_a_repair_could_remove() -> None:
    """While work runs, keys are full of jobs that just began or are about to leave."""
    busy = given.key_state(active=(given.slot("a"),), queued=(given.waiting("b"),))
    assert removable(busy, frozenset(), given.after(9)) == frozenset()
    assert removable(busy, frozenset(), given.after(10)) == {"b"}
    assert removable(busy, frozenset({given.FIRST.id}), given.after(9)) == {"a"}


async def test_what_finished_and_unknown_jobs_left_in_keys_is_removed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with probe(server.url) as raw, producer(server.url) as jobs:
        over, lives = await jobs.keyed.create(Task()), await jobs.keyed.create(Task())
        await over.cancel()
        key, now = key_view(raw, jobs.keyed), datetime.now(UTC)
        long_ago = now - timedelta(minutes=5)
        second = timedelta(seconds=1)
        slot = given.slot(
            over.id, started_at=long_ago, heartbeat_at=long_ago, expires_at=long_ago + second
        )
        before = await key.read()
        await key.write(
            replace(
                before,
                active=(slot,),
                queued=(
                    given.waiting(over.id, created_at=long_ago),
                    given.waiting("never", created_at=long_ago),
                    given.waiting("any-moment-now", created_at=now),
                    *before.queued,
                ),
                max_queued=77,
                unknown={"colour": "blue"},
            )
        )
        async with (
            looking_after(server.url, tmp_path / "one.sqlite") as one,
            looking_after(server.url, tmp_path / "two.sqlite") as two,
        ):

            async def repaired() -> bool:
                return (await key.read()).active == ()

            await until(repaired, "the slot is dropped once its lease is over")
            await until_swept(one, "key repair")
            await until_swept(two, "key repair")
        state = await key.read()
        assert [each.job_id for each in state.queued] == ["any-moment-now", lives.id]
        assert (state.max_queued, state.unknown) == (77, {"colour": "blue"})


async def test_a_slot_that_is_renewed_is_not_repaired(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The job was cancelled, and its handler takes its time to tidy up."""
    async with probe(server.url) as raw, producer(server.url) as jobs:
        ref, key = await jobs.keyed.create(Task()), key_view(raw, jobs.keyed)
        await ref.cancel()
        now = datetime.now(UTC)
        slot = given.slot(ref.id, heartbeat_at=now, expires_at=now + timedelta(seconds=1))
        async with looking_after(server.url, tmp_path / "jobs.sqlite") as daemon:
            for beat in range(10):
                at = now + timedelta(seconds=beat)
                renewed = replace(slot, heartbeat_at=at, expires_at=at + timedelta(seconds=1))
                await key.write(replace(await key.read(), active=(renewed,)))
                await until_swept(daemon, "key repair", times=1)
            assert (await key.read()).slot_of(ref.id) is not None
            await key.until_empty()


async def test_a_key_that_cannot_be_read_stops_no_repair(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with probe(server.url) as raw, producer(server.url) as jobs:
        over = await jobs.keyed.create(Task())
        await over.cancel()
        key, long_ago = key_view(raw, jobs.keyed), datetime.now(UTC) - timedelta(minutes=5)
        left = given.waiting(over.id, created_at=long_ago)
        await key.write(replace(await key.read(), queued=(left,)))
        await raw.connection.request(f"$KV.JOBS_KEYS.ward.keyed.{'0' * 64}", b"rubbish")
        await raw.connection.request("$KV.JOBS_KEYS.odd", b"{}")
        async with looking_after(server.url, tmp_path / "jobs.sqlite") as daemon:
            await key.until_empty()
            assert daemon.loops.all["key repair"].failures == 0
            broken = {**ACME, "key": "0" * 64}
            assert (await ask(raw, "Jobs.GetKey", broken))["type"] == "UnexpectedError"


async def test_a_bucket_that_was_created_again_is_read_from_its_start(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        over, key = await jobs.keyed.create(Task()), key_view(raw, jobs.keyed)
        await over.cancel()
        for _ in range(5):
            await key.write(await key.read())
        await until_swept(daemon, "key repair")
        config = await raw.connection.request("$JS.API.STREAM.INFO.KV_JOBS_KEYS")
        await create_again(raw, config.data)
        left = given.waiting(over.id, created_at=datetime.now(UTC) - timedelta(minutes=5))
        await key.write(replace(key.empty, queued=(left,)))
        await key.until_empty()


async def create_again(raw: Probe, info: bytes) -> None:
    await raw.connection.request("$JS.API.STREAM.DELETE.KV_JOBS_KEYS")
    config = orjson.dumps(orjson.loads(info)["config"])
    answer = await raw.connection.request("$JS.API.STREAM.CREATE.KV_JOBS_KEYS", config)
    assert "error" not in orjson.loads(answer.data)
