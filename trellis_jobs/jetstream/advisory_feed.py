"""Advisories of the work queue, one by one, each until somebody says that it is dealt with."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from trellis_jobs.contract.topology import ADVISORIES, ADVISORY_CONSUMER, advisory_consumer
from trellis_jobs.errors import InfrastructureMissing, NotConfirmed, RequestRefused
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import ConnectionLost
from trellis_jobs.jetstream.deliveries import answer_bytes
from trellis_jobs.model.settlement import Ack, Nak

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nats.aio.msg import Msg

    from trellis_jobs.jetstream.connection import Connection
    from trellis_jobs.model.settlement import Answer

log = logging.getLogger(__name__)

_PULL: Final = 20
_PULL_SECONDS: Final = 5.0
_SLACK_SECONDS: Final = 1.0
_RETRY_AFTER: Final = 0.25
_AGAIN: Final = Nak(timedelta(seconds=10))
_NEXT: Final = f"{api.PREFIX}.CONSUMER.MSG.NEXT.{ADVISORIES}.{ADVISORY_CONSUMER}"


@dataclass(frozen=True, slots=True)
class Advisory:
    subject: str
    data: bytes
    reply: str


class AdvisoryFeed:
    """All replicas share one durable consumer: each advisory goes to one of them at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def advisories(self) -> AsyncIterator[Advisory]:
        """Without end, and through any outage; one that is not answered comes again."""
        while True:
            await self._connection.until_up()
            try:
                async for advisory in self._from_one_inbox():
                    yield advisory
            except (ConnectionLost, NotConfirmed) as error:
                if self._connection.is_closed:
                    raise
                log.warning("advisories cannot be read right now", extra={"error": str(error)})
                await asyncio.sleep(_RETRY_AFTER)

    async def done(self, advisory: Advisory) -> None:
        await self._answer(advisory, Ack())

    async def later(self, advisory: Advisory) -> None:
        await self._answer(advisory, _AGAIN)

    async def _from_one_inbox(self) -> AsyncIterator[Advisory]:
        await self._ensure()
        arrived: asyncio.Queue[Msg | None] = asyncio.Queue()
        inbox = self._connection.new_inbox()
        subscription = await self._connection.subscribe(inbox, arrived.put_nowait)
        forget = self._connection.on_reconnect(partial(arrived.put_nowait, None))
        try:
            async for advisory in self._from(arrived, inbox):
                yield advisory
        finally:
            forget()
            await self._connection.unsubscribe(subscription)

    async def _from(
        self, arrived: asyncio.Queue[Msg | None], inbox: str
    ) -> AsyncIterator[Advisory]:
        """Until the consumer, or a pull of it, seems to be gone."""
        owed = 0
        while True:
            if owed == 0:
                body = {"batch": _PULL, "expires": int(_PULL_SECONDS * 1e9)}
                await self._connection.publish(_NEXT, orjson.dumps(body), reply=inbox)
                owed = _PULL
            try:
                async with asyncio.timeout(_PULL_SECONDS + _SLACK_SECONDS):
                    message = await arrived.get()
            except TimeoutError:
                return
            if message is None:
                return
            # Only the server's own word has no reply: whoever wrote an advisory may add headers.
            status = None if message.reply else (message.headers or {}).get("Status")
            if status not in {None, "404", "408"}:
                return
            if status is None:
                owed -= 1
                yield Advisory(message.subject, message.data, message.reply)
            else:
                owed = 0

    async def _ensure(self) -> None:
        config = advisory_consumer()
        call = f"CONSUMER.CREATE.{ADVISORIES}.{ADVISORY_CONSUMER}.{config['filter_subject']}"
        body = {"stream_name": ADVISORIES, "action": "create", "config": config}
        try:
            await api.request(self._connection, call, body)
        except RequestRefused as refusal:
            if refusal.code == api.STREAM_NOT_FOUND:
                raise InfrastructureMissing(f"stream {ADVISORIES}") from refusal
            if refusal.code not in (api.CONSUMER_EXISTS, api.CONSUMER_NAME_IN_USE):
                raise

    async def _answer(self, advisory: Advisory, answer: Answer) -> None:
        data = answer_bytes(answer)
        try:
            await self._connection.publish(advisory.reply, data or b"")
        except ConnectionLost as error:
            log.warning("an advisory will come once more", extra={"error": str(error)})
