"""Delivers the advisories of the work queue one by one, each until it is acknowledged."""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import ADVISORIES, ADVISORY_CONSUMER, advisory_consumer
from trellis_jobs.errors import RequestRefused
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pull_consumer import open_pull_consumer
from trellis_jobs.jetstream.client.resume_after_disconnect import resume_after_disconnect
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.work.delivery import answer_bytes
from trellis_jobs.model.settlement import Ack, Nak

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.settlement import Answer

log = logging.getLogger(__name__)

_BATCH_SIZE: Final = 20
_RETRY_LATER: Final = Nak(timedelta(seconds=10))


@dataclass(frozen=True, slots=True)
class Advisory:
    """`stored_at` comes from the server; a client may have forged the rest."""

    subject: str
    data: bytes
    reply: str
    stored_at: datetime


class AdvisoryFeed:
    """All admin runtimes share one durable consumer; each advisory goes to one at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def advisories(self) -> AsyncGenerator[Advisory, None]:
        """Yields advisories without end, also after outages; unacknowledged ones come again."""
        reading = resume_after_disconnect(
            self._connection, "advisories", self._from_the_consumer, retry_if_missing=lambda: False
        )
        async with aclosing(reading) as found:
            async for advisory in found:
                yield advisory

    async def done(self, advisory: Advisory) -> None:
        await self._answer(advisory, Ack())

    async def later(self, advisory: Advisory) -> None:
        await self._answer(advisory, _RETRY_LATER)

    async def _from_the_consumer(self) -> AsyncGenerator[Advisory, None]:
        await self._ensure()
        async with open_pull_consumer(self._connection, ADVISORIES, ADVISORY_CONSUMER) as pull:
            async for message, delivery in pull.stream(batch_size=_BATCH_SIZE):
                stored_at = moment_of(delivery.stored_ns)
                yield Advisory(message.subject, message.data, message.reply, stored_at)

    async def _ensure(self) -> None:
        config = advisory_consumer()
        call = f"CONSUMER.CREATE.{ADVISORIES}.{ADVISORY_CONSUMER}.{config['filter_subject']}"
        body = {"stream_name": ADVISORIES, "action": "create", "config": config}
        try:
            await api.request(self._connection, call, body)
        except RequestRefused as refusal:
            if refusal.code not in (api.CONSUMER_EXISTS, api.CONSUMER_NAME_IN_USE):
                raise

    async def _answer(self, advisory: Advisory, answer: Answer) -> None:
        data = answer_bytes(answer)
        try:
            await self._connection.publish(advisory.reply, data or b"")
        except ConnectionLost as error:
            log.warning(
                "an advisory was not acknowledged and will be delivered again: %s",
                error,
                extra={"error": str(error)},
            )
