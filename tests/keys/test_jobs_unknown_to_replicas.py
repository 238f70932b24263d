"""A lagging replica may have no event of a live job, so the leader decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from tests import given
from tests.keys.keyed_lab import HELPDESK, Key, helpdesk, history
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.lab import probe
from tests.support.servers import VERSIONS, start_version
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.coordinator import ABANDONED_AFTER, KeyCoordinator
from trellis_jobs.model.keys.state import Slot
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

# Without guards (2.10) clients cannot read from the leader.
GUARDING = [version for version in VERSIONS if not version.startswith("2.10.")]


@pytest.fixture(scope="module", params=GUARDING)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with start_version(request.param) as server:
        yield server.url


@asynccontextmanager
async def running(url: str, job_id: str) -> AsyncIterator[tuple[Key, Slot]]:
    """A job that has been running under a slot for longer than reservations are kept."""
    async with helpdesk(url) as (_, raw):
        key = Key(raw, "strict", job_id)
        await key.tell(*history(key.job(job_id), *given.LEADING_TO[JobState.ACTIVE]))
        slot = given.slot(job_id, started_at=datetime.now(UTC) - 2 * ABANDONED_AFTER)
        await key.put(replace(key.empty, active=(slot,)))
        yield key, slot


@asynccontextmanager
async def keys_seen_from_afar(url: str) -> AsyncIterator[tuple[KeyCoordinator, FaultProxy]]:
    queue = HELPDESK.contract.queues["strict"]
    assert queue.key_policy is not None
    async with fault_proxy(url) as way, probe(way.url) as far:
        bucket = KeyBucket(far.connection, utc_now)
        yield KeyCoordinator("helpdesk", queue, queue.key_policy, bucket, far.events, utc_now), way


async def test_a_job_that_runs_keeps_its_slot(url: str) -> None:
    async with running(url, "kept") as (key, _), keys_seen_from_afar(url) as (keys, way):
        before = await key.stored()
        answered = way.answer_reads_with_404(times=1)
        await keys.forget_ended(key.job_key, await key.state())
        assert answered() == 1
        assert await key.stored() == before


async def test_an_expired_slot_is_freed_only_after_the_log_has_the_eviction(url: str) -> None:
    async with running(url, "fenced") as (key, slot), keys_seen_from_afar(url) as (keys, way):
        answered = way.answer_reads_with_404(times=1)
        assert await keys.evict(key.job_key, slot)
        assert answered() == 1
        kinds = [entry.event.kind for entry in await key.raw.events.history(key.job("fenced"))]
        assert kinds == ["created", "started", "stale"]
        assert (await key.state()).stale_takeovers == 1


async def test_a_job_of_which_the_leader_has_nothing_either_keeps_no_place(url: str) -> None:
    async with helpdesk(url) as (_, raw), keys_seen_from_afar(url) as (keys, _):
        key = Key(raw, "strict", "never")
        at = datetime.now(UTC) - 2 * ABANDONED_AFTER
        await key.put(replace(key.empty, active=(given.slot("never-1", started_at=at),)))
        await keys.forget_ended(key.job_key, await key.state())
        assert await key.active() == []
        assert await raw.events.history(key.job("never-1")) == []
