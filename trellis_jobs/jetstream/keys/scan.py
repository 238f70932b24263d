"""Every key that has changed since the last look: what is in the bucket, without asking for each.

The bucket keeps one message a key, so a look from the beginning is a look at all of them.
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
    """Remembers how far it has looked; a bucket that was made anew is looked at from its start."""

    def __init__(self, connection: Connection, bucket: str = KEYS_BUCKET) -> None:
        self._connection = connection
        self._stream = subjects.stream_of_bucket(bucket)
        self._position = 0
        self._created = ""

    async def since_last(self) -> tuple[bool, dict[KeyAddress, KeyState | None]]:
        """Whether these are all keys there are; None for one that holds no state any more.

        A look that broke off counts for nothing: NotConfirmed, and the next one finds the same.
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
        """A key that is written meanwhile moves to the end: fewer may come than were counted."""
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
            raise NotConfirmed(f"a look at all keys ({error})", PULL_SECONDS) from error


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
            # Whoever needs the key reports it, and nobody resets it.
            log.warning(
                "the key state on %s is malformed and was left as it is: %s",
                message.subject,
                found.reason,
                extra={"subject": message.subject, "reason": found.reason},
            )
