"""The worker processes that this admin runtime knows, and since when each has been silent.

Silence is measured by this process's own clock, and only over time in which the server confirmed
that no record changed. After a gap every worker gets its full time again, because the server may
have been unable to store beats, too (design D26).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import InfrastructureMissing, NotPermitted
from trellis_jobs.jetstream.control.record_feed import ReadingBegins
from trellis_jobs.model.worker_record import is_silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trellis_jobs.jetstream.control.worker_feed import WorkerChange, WorkerFeed
    from trellis_jobs.jetstream.control.worker_records import StoredWorker
    from trellis_jobs.model.worker_record import WorkerRecord


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """`seen_at` is when this process read the newest change, `stored_ns` when it was stored."""

    worker: StoredWorker
    seen_at: float
    stored_ns: int

    @property
    def record(self) -> WorkerRecord:
        return self.worker.record


log = logging.getLogger(__name__)

_RETRY_DELAY: Final = 10.0
# Between two confirmations by the server; a longer gap counts as an outage.
_MAX_GAP: Final = 5.0


class WorkerRegistry:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._workers: dict[tuple[str, str], KnownWorker] = {}
        self._reading_since = self._confirmed_at = -inf
        self._is_complete = False

    @property
    def is_complete(self) -> bool:
        """Whether all records that exist have been read."""
        return self._is_complete

    async def run(self, feed: WorkerFeed) -> None:
        """Keeps the registry current. It is empty until the first records have been read."""
        is_reported = False
        while True:
            try:
                await self._read(feed)
            except (InfrastructureMissing, NotPermitted) as error:
                if not is_reported:
                    log.warning(
                        "the records of workers cannot be read, so dead workers are not detected "
                        "(their jobs wait for their leases): %s",
                        error,
                        extra={"error": str(error)},
                    )
                is_reported = True
            await asyncio.sleep(_RETRY_DELAY)

    async def _read(self, feed: WorkerFeed) -> None:
        async with aclosing(feed.changes()) as changes:
            async for change in changes:
                self.apply(change)

    def apply(self, change: WorkerChange | ReadingBegins | None) -> None:
        now = self._monotonic()
        if isinstance(change, ReadingBegins) or now - self._confirmed_at > _MAX_GAP:
            self._reading_since = now
        self._confirmed_at = now
        if isinstance(change, ReadingBegins):
            if change.is_complete:
                self._workers.clear()
                self._is_complete = False
        elif change is None:
            self._is_complete = True
        else:
            profile = change.worker.record.profile
            key = profile.service, profile.instance
            self._workers[key] = KnownWorker(change.worker, now, change.stored_ns)

    def replace(self, changed: StoredWorker) -> None:
        """Takes a record that this process has written itself, before the feed delivers it."""
        profile = changed.record.profile
        known = self._workers.get((profile.service, profile.instance))
        if known is not None and known.worker.revision < changed.revision:
            self._workers[profile.service, profile.instance] = KnownWorker(
                changed, self._monotonic(), known.stored_ns
            )

    def all(self) -> list[KnownWorker]:
        """Returns the workers whose records exist, ordered by service and instance."""
        self._forget_expired()
        return [self._workers[key] for key in sorted(self._workers)]

    def find(self, service: str, instance: str) -> KnownWorker | None:
        self._forget_expired()
        return self._workers.get((service, instance))

    def silent_for(self, known: KnownWorker) -> timedelta:
        """For how long the server has confirmed that the record does not change."""
        since = max(known.seen_at, self._reading_since)
        return timedelta(seconds=max(0.0, self._confirmed_at - since))

    def heard(self) -> list[WorkerRecord]:
        """The records of workers that do not count as dead. None until all have been read."""
        if not self._is_complete:
            return []
        return [
            known.record
            for known in self.all()
            if not is_silent(known.record, self.silent_for(known))
        ]

    def silent(self) -> Iterator[KnownWorker]:
        """The workers that count as dead and have not been declared dead."""
        return (known for known in self.all() if is_silent(known.record, self.silent_for(known)))

    def unrecovered(self) -> Iterator[KnownWorker]:
        """The workers that were declared dead and whose jobs are not all recovered."""
        for known in self.all():
            verdict = known.record.verdict
            if verdict is not None and not verdict.is_recovered:
                yield known

    def _forget_expired(self) -> None:
        """The server removes records without telling their readers."""
        now = self._monotonic()
        self._workers = {
            key: known
            for key, known in self._workers.items()
            if now - known.seen_at <= known.record.lifetime.total_seconds()
        }
