"""One service made 3,000 consumers that it cannot delete: the admin runtime deletes unused ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs_admin.maintenance import abandoned_readers
from jobs_admin.maintenance.abandoned_readers import ABANDONED_AFTER, AbandonedReaders, is_abandoned
from tests.support.lab import Probe, probe
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.setup.readers import Reader, list_readers

OLD = ABANDONED_AFTER + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("reader", "abandoned"),
    [
        (Reader("JOBS", "left", "garden", unused_for=OLD), True),
        (Reader("JOBS", "pushes", "garden", "somewhere", unused_for=OLD), True),
        (Reader("JOBS", "used", "garden", unused_for=ABANDONED_AFTER), False),
        (Reader("JOBS", "durable", "garden", is_durable=True, unused_for=OLD), False),
        (Reader("JOBS_WORK", "pushes", "garden", "somewhere", unused_for=OLD), False),
    ],
    ids=lambda value: value.path if isinstance(value, Reader) else "",
)
def test_what_was_left_behind(reader: Reader, abandoned: bool) -> None:
    assert is_abandoned(reader) is abandoned


async def make(raw: Probe, name: str, **config: Any) -> None:
    filtered = "trellis.jobs.garden.>"
    fixed = {"name": name, "filter_subject": filtered, "ack_policy": "none"}
    kept = {"inactive_threshold": 86_400_000_000_000}
    body = {"stream_name": "JOBS", "action": "create", "config": fixed | kept | config}
    await api.request(raw.connection, f"CONSUMER.CREATE.JOBS.{name}.{filtered}", body)


async def test_a_sweep_deletes_them_and_nothing_else(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        for number in range(30):
            await make(raw, f"left-{number}")
        await make(raw, "durable", durable_name="durable")
        await make(raw, "waiting")
        pull = "$JS.API.CONSUMER.MSG.NEXT.JOBS.waiting"
        inbox = raw.connection.new_inbox()
        await raw.connection.subscribe(inbox, lambda _: None)
        await raw.connection.publish(pull, b'{"batch":1,"expires":30000000000}', reply=inbox)
        sweep = AbandonedReaders(raw.connection, lambda: None).sweep
        await sweep()
        assert len(await list_readers(raw.connection)) == 32, "they were used just now"
        monkeypatch.setattr(abandoned_readers, "ABANDONED_AFTER", timedelta())
        await sweep()
        left = {reader.name for reader in await list_readers(raw.connection)}
        assert left == {"durable", "waiting"}
        await api.request(raw.connection, "CONSUMER.INFO.JOBS.to-work")
    assert "deleted 30 readers of the log" in caplog.text
    assert "services: garden" in caplog.text
