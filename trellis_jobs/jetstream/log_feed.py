"""The whole log, from a position on and without end, in batches: what projections are made from."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import InfrastructureError
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import ConnectionLost
from trellis_jobs.jetstream.delivery_info import read_reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from nats.aio.msg import Msg

    from trellis_jobs.jetstream.connection import Connection

log = logging.getLogger(__name__)

_PULL: Final = 1_000
_PULL_BYTES: Final = 16 * 1024 * 1024
_PULL_SECONDS: Final = 5.0
_SLACK_SECONDS: Final = 2.0
_IDLE_NS: Final = 60 * 10**9
_RETRY_AFTER: Final = 0.25


@dataclass(frozen=True, slots=True)
class LogMessage:
    """`stored_ns` is the server's time; `pending` how many messages came after this one then."""

    subject: str
    sequence: int
    stored_ns: int
    pending: int
    data: bytes
    headers: Mapping[str, str] | None


class LogFeed:
    """Each call of `batches` begins where it is told, and goes on through any outage."""

    def __init__(self, connection: Connection, *, most: int = 500) -> None:
        self._connection = connection
        self._most = most
        self._arrived: asyncio.Queue[Msg | None] = asyncio.Queue()
        self._asked = 0

    async def batches(self, after: int) -> AsyncIterator[list[LogMessage]]:
        """What comes after a sequence: as many at once as have arrived, and at most `most`."""
        position = after
        while True:
            try:
                async for batch in self._from_one_consumer(position):
                    position = batch[-1].sequence
                    yield batch
            except (ConnectionLost, InfrastructureError) as error:
                if self._connection.is_closed:
                    raise
                log.warning("the log cannot be read right now", extra={"error": str(error)})
                await asyncio.sleep(_RETRY_AFTER)
            await self._connection.until_up()

    async def _from_one_consumer(self, after: int) -> AsyncIterator[list[LogMessage]]:
        """Until the consumer, or a pull of it, seems to be gone."""
        name, inbox = f"feed-{secrets.token_hex(8)}", self._connection.new_inbox()
        self._arrived, self._asked = asyncio.Queue(), 0
        arrived = self._arrived
        await self._make(name, after)
        subscription = await self._connection.subscribe(inbox, arrived.put_nowait)
        forget = self._connection.on_reconnect(lambda: arrived.put_nowait(None))
        try:
            while (batch := await self._next(name, inbox)) is not None:
                if batch:
                    yield batch
        finally:
            forget()
            await self._connection.unsubscribe(subscription)

    async def _make(self, name: str, after: int) -> None:
        config: dict[str, Any] = {
            "name": name,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_NS,
            "deliver_policy": "by_start_sequence" if after else "all",
        }
        if after:
            config["opt_start_seq"] = after + 1
        body = {"stream_name": LOG, "action": "create", "config": config}
        await api.request(self._connection, f"CONSUMER.CREATE.{LOG}.{name}", body)

    async def _next(self, name: str, inbox: str) -> list[LogMessage] | None:
        """The next messages, none of them when a pull ended, or None when this is over."""
        if self._asked <= _PULL // 2:
            self._asked += _PULL
            body = {
                "batch": _PULL,
                "max_bytes": _PULL_BYTES,
                "expires": int(_PULL_SECONDS * 1e9),
            }
            subject = f"{api.PREFIX}.CONSUMER.MSG.NEXT.{LOG}.{name}"
            await self._connection.publish(subject, orjson.dumps(body), reply=inbox)
        try:
            async with asyncio.timeout(_PULL_SECONDS + _SLACK_SECONDS):
                message = await self._arrived.get()
        except TimeoutError:
            return None
        batch: list[LogMessage] = []
        while True:
            if message is None or not self._take(message, batch):
                return batch or None
            if len(batch) >= self._most or self._arrived.empty():
                return batch
            message = self._arrived.get_nowait()

    def _take(self, message: Msg, batch: list[LogMessage]) -> bool:
        """False when the consumer is gone."""
        status = (message.headers or {}).get("Status")
        if status is not None:
            self._asked = 0
            return status in {"404", "408"} or "MaxBytes" in (message.headers or {}).get(
                "Description", ""
            )
        self._asked -= 1
        stored = stored_message(message)
        if stored is not None:
            batch.append(stored)
        return True


def stored_message(message: Msg) -> LogMessage | None:
    """What a consumer of the log delivered; None when it was no delivery."""
    info = read_reply(message.reply)
    if info is None:
        return None
    return LogMessage(
        message.subject,
        info.stream_sequence,
        info.stored_ns,
        info.pending,
        message.data,
        message.headers,
    )
