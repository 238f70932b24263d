"""Every key that has changed since the last look: what is in the bucket, without asking for each.

The bucket keeps one message a key, so a look from the beginning is a look at all of them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import KEYS
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.delivery_info import read_reply
from trellis_jobs.model import subjects
from trellis_jobs.model.key_state import KeyState
from trellis_jobs.wire import keys as wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nats.aio.msg import Msg

    from trellis_jobs.jetstream.connection import Connection
    from trellis_jobs.model.key_state import KeyAddress

log = logging.getLogger(__name__)

_PULL: Final = 500
_PULL_SECONDS: Final = 5.0
_IDLE_NS: Final = 5 * 10**9


class KeyChanges:
    """Remembers how far it has looked; a bucket that was made anew is looked at from its start."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._position = 0
        self._made_at = ""

    async def since_last(self) -> tuple[bool, dict[KeyAddress, KeyState | None]]:
        """Whether these are all keys there are; None for one that holds no state any more."""
        info = await api.request(self._connection, f"STREAM.INFO.{KEYS}")
        if info["created"] != self._made_at:
            self._position, self._made_at = 0, info["created"]
        are_all = self._position == 0
        changed: dict[KeyAddress, KeyState | None] = {}
        if int(info["state"]["last_seq"]) > self._position:
            async with self._reader() as messages:
                async for message in messages:
                    self._take(message, changed)
        return are_all, changed

    def _take(self, message: Msg, changed: dict[KeyAddress, KeyState | None]) -> None:
        delivery, address = read_reply(message.reply), subjects.key_address(message.subject)
        if delivery is not None:
            self._position = max(self._position, delivery.stream_sequence)
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
                    "a key's state cannot be read",
                    extra={"subject": message.subject, "reason": found.reason},
                )

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[AsyncIterator[Msg]]:
        name, inbox = f"keys-{secrets.token_hex(8)}", self._connection.new_inbox()
        config: dict[str, Any] = {
            "name": name,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_NS,
            "deliver_policy": "by_start_sequence" if self._position else "all",
        }
        if self._position:
            config["opt_start_seq"] = self._position + 1
        body = {"stream_name": KEYS, "action": "create", "config": config}
        made = await api.request(self._connection, f"CONSUMER.CREATE.{KEYS}.{name}", body)
        arrived: asyncio.Queue[Msg] = asyncio.Queue()
        subscription = await self._connection.subscribe(inbox, arrived.put_nowait)
        try:
            yield self._messages(name, inbox, arrived, int(made.get("num_pending", 0)))
        finally:
            await self._connection.unsubscribe(subscription)

    async def _messages(
        self, name: str, inbox: str, arrived: asyncio.Queue[Msg], pending: int
    ) -> AsyncIterator[Msg]:
        """A key that is written meanwhile moves to the end: fewer may come than were counted."""
        asked = 0
        while pending > 0:
            if asked == 0:
                asked = min(pending, _PULL)
                pull = orjson.dumps({"batch": asked, "no_wait": True})
                subject = f"{api.PREFIX}.CONSUMER.MSG.NEXT.{KEYS}.{name}"
                await self._connection.publish(subject, pull, reply=inbox)
            try:
                async with asyncio.timeout(_PULL_SECONDS):
                    message = await arrived.get()
            except TimeoutError:
                raise NotConfirmed("a look at all keys", _PULL_SECONDS) from None
            if not message.reply:
                return
            asked, pending = asked - 1, pending - 1
            yield message
