"""Answers that do not fit into one message are told in parts, and say what they leave out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.services import ServiceView, WorkerView
from jobs_admin.rpc.pages import service_json
from tests.admin.upkeep_lab import SERVICE, looking_after, producer
from tests.support.example_service import Task
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model import subjects
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.wire import presence

MANY_WORKERS = 8_000
MANY_KEYS = 350
LONG = "y" * 3_300


async def test_a_service_with_thousands_of_workers_is_listed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url),
        probe(server.url) as raw,
        AdminClient.connect(server.url, timeout=20) as client,
    ):
        for number in range(MANY_WORKERS):
            beat = WorkerHeartbeat(
                service=SERVICE,
                job_type="plain",
                instance=f"01M7JKBT07TGKPEG5X{number:08}",
                at=datetime.now(UTC),
                concurrency=10,
                version="0.1",
            )
            subject = subjects.presence(SERVICE, "plain", beat.instance)
            await raw.connection.publish(subject, presence.encode(beat))
        await raw.connection.request(subject, presence.encode(beat))
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            [service] = [each async for each in client.services()]
        assert 0 < len(service.workers) < MANY_WORKERS
        assert len(service.workers) + service.omitted_workers == MANY_WORKERS
        assert [of.live_workers for of in service.types] == [MANY_WORKERS]


async def test_keys_of_any_length_are_listed_and_found(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        AdminClient.connect(server.url, timeout=20) as client,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        keys = [f"{number:05}{LONG}" for number in range(MANY_KEYS)]
        refs = await asyncio.gather(*(jobs.keyed.create(Task(key=key)) for key in keys))
        for ref in refs:
            await client.get(ref.id)
        page = await client.list_keys(limit=500)
        assert (page.count, len(page.entries), page.next_offset) == (MANY_KEYS, MANY_KEYS, None)
        told = {each.key async for each in client.busy_keys()}
        assert told == {f"ward:{key}" for key in keys}
        found = await client.get_key(SERVICE, "keyed", f"ward:{keys[7]}")
        assert [waiting.job_id for waiting in found.queued] == [refs[7].id]


def test_what_fits_is_told_whole() -> None:
    worker = WorkerView(
        service="shop", job_type="ship", instance_id="pod-7", timestamp=datetime.now(UTC)
    )
    service = ServiceView(name="shop", healthy=True, workers=(worker,) * 3, types=())
    whole = service_json(service, max_bytes=2_000)
    assert whole == service_json(service, max_bytes=len(whole))
    assert b"omittedWorkers" not in whole
    cut = service_json(service, max_bytes=len(whole) - 1)
    assert b'"omittedWorkers":1' in cut
    assert len(cut) < len(whole)
