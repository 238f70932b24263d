"""The keys that some job holds or waits for, in all buckets in which queues keep keys."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jobs_admin.actions.key_buckets import KeyBucketNotPermitted
from trellis_jobs.errors import JobsError, NotPermitted
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.keys.scan import KeyChanges
from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from jobs_admin.actions.key_buckets import KeyBuckets
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.keys.state import KeyAddress, KeyState

log = logging.getLogger(__name__)


class OccupiedKeys:
    def __init__(self, connection: Connection, buckets: KeyBuckets) -> None:
        self.states: dict[KeyAddress, KeyState] = {}
        self._connection = connection
        self._buckets = buckets
        self._changes = {KEYS_BUCKET: KeyChanges(connection)}
        self._unreadable: dict[str, str] = {}

    async def update(self) -> None:
        """Brings `states` up to date; a bucket that cannot be read does not stop the others."""
        others = await self._buckets.others()
        await self._read(KEYS_BUCKET)
        for bucket in self._changes.keys() - others - {KEYS_BUCKET}:
            del self._changes[bucket]
            self._forget(bucket)
        for bucket in sorted(others):
            await self._try(bucket)

    async def _try(self, bucket: str) -> None:
        self._changes.setdefault(bucket, KeyChanges(self._connection, bucket))
        try:
            await self._read(bucket)
        except (JobsError, ConnectionLost, NoResponders) as error:
            self._forget(bucket)
            # Whatever could be read before is read again from the start.
            del self._changes[bucket]
            if isinstance(error, NotPermitted):
                error = KeyBucketNotPermitted(bucket, error)
            self._warn(bucket, str(error))
        else:
            self._unreadable.pop(bucket, None)

    async def _read(self, bucket: str) -> None:
        are_all, changed = await self._changes[bucket].since_last()
        if are_all:
            self._forget(bucket)
        for key, state in changed.items():
            if state is None or not (state.active or state.queued):
                self.states.pop(key, None)
            else:
                self.states[key] = state

    def _forget(self, bucket: str) -> None:
        self.states = {key: state for key, state in self.states.items() if key.bucket != bucket}

    def _warn(self, bucket: str, why: str) -> None:
        """Only once for each reason: every sweep meets the same."""
        if self._unreadable.get(bucket) != why:
            self._unreadable[bucket] = why
            log.warning(
                "key repair: the keys in bucket %s are not repaired, because they cannot be "
                "read: %s",
                bucket,
                why,
                extra={"bucket": bucket, "error": why},
            )
