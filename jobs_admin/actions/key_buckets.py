"""In which bucket each queue keeps its keys, as the queue's consumer says.

A service that shares its queues with other runtimes may name another bucket than `JOBS_KEYS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.consumer_metadata import keys_bucket
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.work.consumer_info import QueueConsumers
from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer

# A change of many jobs asks for each of them; a deploy may change the bucket at any time.
_REMEMBERED_SECONDS: Final = 5.0


class KeyBucketNotPermitted(NotPermitted):
    def __init__(self, bucket: str, refused: NotPermitted) -> None:
        super().__init__(
            refused.subject,
            f"keys are in the bucket {bucket}, which the admin runtime may not use ({refused}): "
            "give it the rights that `trellis-jobs permissions --admin` prints when the service "
            "that uses this bucket is named with --service",
        )
        self.bucket = bucket


@dataclass(frozen=True, slots=True)
class _Remembered:
    bucket: str
    until: float


class KeyBuckets:
    def __init__(self, connection: Connection, monotonic: Callable[[], float]) -> None:
        self._consumers = QueueConsumers(connection)
        self._monotonic = monotonic
        self._remembered: dict[tuple[str, str], _Remembered] = {}

    async def of(self, service: str, job_type: str) -> str | None:
        """Returns None when the queue has no consumer yet, or one that does not name the bucket."""
        known, now = self._remembered.get((service, job_type)), self._monotonic()
        if known is not None and now < known.until:
            return known.bucket
        consumer = await self._consumers.of(service, job_type)
        bucket = None if consumer is None else _named_by(consumer)
        if bucket is not None:
            remembered = _Remembered(bucket, now + _REMEMBERED_SECONDS)
            self._remembered[service, job_type] = remembered
        return bucket

    async def others(self) -> set[str]:
        """The buckets beside `JOBS_KEYS` in which queues keep keys."""
        named = {_named_by(consumer) for consumer in await self._consumers.all()}
        return {bucket for bucket in named if bucket is not None} - {KEYS_BUCKET}


def _named_by(consumer: QueueConsumer) -> str | None:
    return keys_bucket(consumer.config.get("metadata") or {})
