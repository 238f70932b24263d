"""Streams as versions of this library created them that knew no lanes."""

from __future__ import annotations

from typing import Any, Final

from tests.support.facts import until
from tests.support.lab import Probe
from trellis_jobs.contract.topology import Topology
from trellis_jobs.jetstream.client import api

# The subject of the first versions, and one as later versions chose it.
FIXED: Final = "_src.jobs.work"
RANDOM: Final = f"{FIXED}.0123456789abcdef0123456789abcdef"
COPIED: Final = ["trellis.jobs.*.*.*.created", "trellis.jobs.*.*.*.retried"]
INTO: Final = "trellis.work.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
SOURCE: Final = {
    "name": "JOBS",
    "subject_transforms": [{"src": copied, "dest": INTO} for copied in COPIED],
}
WORK: Final = {
    "name": "JOBS_WORK",
    "subjects": ["trellis.work.>"],
    "storage": "file",
    "num_replicas": 1,
    "retention": "workqueue",
    "max_consumers": 100_000,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "discard": "old",
}
TO_WORK: Final = {
    "name": "to-work",
    "durable_name": "to-work",
    "ack_policy": "flow_control",
    "flow_control": True,
    "idle_heartbeat": 1_000_000_000,
    "max_deliver": -1,
    "max_ack_pending": 1000,
    "filter_subjects": COPIED,
}


async def install(
    raw: Probe, delivers_to: str = RANDOM, *, plain: bool = False, replicas: int = 1
) -> None:
    """`plain`: without a durable source, as on a server before 2.14."""
    log = Topology(raw.features, replicas).log() | {"max_consumers": 100_000}
    await api.request(raw.connection, "STREAM.CREATE.JOBS", log)
    source: dict[str, Any] = dict(SOURCE)
    is_durable = raw.features.durable_sourcing and not plain
    if is_durable:
        config = TO_WORK | {"deliver_subject": delivers_to}
        body = {"stream_name": "JOBS", "action": "create", "config": config}
        await api.request(raw.connection, "CONSUMER.CREATE.JOBS.to-work", body)
        source["consumer"] = {"name": "to-work", "deliver_subject": delivers_to}
    work = WORK | {"sources": [source], "num_replicas": replicas}
    await api.request(raw.connection, "STREAM.CREATE.JOBS_WORK", work)

    async def listens() -> bool:
        info = await api.request(raw.connection, "CONSUMER.INFO.JOBS.to-work")
        return bool(info.get("push_bound"))

    if is_durable:
        await until(listens, "the source listens")
