"""Scans the bucket for keys that changed since the last scan, without a request per key.

The bucket keeps one message per key, so a scan from the beginning returns all of them.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pull_consumer import (
    PULL_SECONDS,
    EphemeralConsumer,
    open_ephemeral_consumer,
)
from trellis_jobs.model import subjects
from trellis_jobs.model.keys.state import KEYS_BUCKET, KeyState
from trellis_jobs.wire import keys as wire

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.client.pull_consumer import Delivered
    from trellis_jobs.model.keys.state import KeyAddress

log = logging.getLogger(__name__)

_CONSUMER_IDLE_TIMEOUT: Final = timedelta(seconds=5)


class KeyChanges:
    """Remembers the position of its last scan; a recreated bucket is scanned from the start."""

    def __init__(self, connection: Connection, bucket: str = KEYS_BUCKET) -> None:
        self._connection = connection
        self._stream = subjects.stream_of_bucket(bucket)
        self._position = 0
        self._created = ""

    async def since_last(self) -> tuple[bool, dict[KeyAddress, KeyState | None]]:
        """Returns whether these are all keys, and their states; None for a deleted state.

        Raises NotConfirmed if the scan breaks off; the next scan returns the same keys again.
        """
        info = await api.request(self._connection, f"STREAM.INFO.{self._stream}")
        if info["created"] != self._created:
            self._position, self._created = 0, info["created"]
        is_complete = self._position == 0
        changed: dict[KeyAddress, KeyState | None] = {}
        if int(info["state"]["last_seq"]) > self._position:
            for message, delivery in await self._messages():
                _decode(message, changed)
                self._position = delivery.stream_sequence
        return is_complete, changed

    async def _messages(self) -> list[Delivered]:
        """A key that is written meanwhile moves to the end, so fewer may come than were counted."""
        consumer = EphemeralConsumer(
            stream=self._stream,
            name_prefix="keys",
            start_sequence=self._position + 1,
            idle_timeout=_CONSUMER_IDLE_TIMEOUT,
            delete_after_use=True,
        )
        try:
            async with open_ephemeral_consumer(self._connection, consumer) as pull:
                return [each async for each in pull.drain()]
        except ConnectionLost as error:
            raise NotConfirmed(f"a scan of all keys ({error})", PULL_SECONDS) from error


def _decode(message: Message, changed: dict[KeyAddress, KeyState | None]) -> None:
    address = subjects.key_address(message.subject)
    if address is None:
        return
    changed[address] = None
    if "KV-Operation" not in (message.headers or {}):
        found = wire.decode(message.data, expected=address)
        if isinstance(found, KeyState):
            changed[address] = found
        else:
            # A job that needs the key reports the error; resetting it is left to an operator.
            log.warning(
                "the key state on %s is malformed and was left as it is: %s",
                message.subject,
                found.reason,
                extra={"subject": message.subject, "reason": found.reason},
            )
