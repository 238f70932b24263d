"""One event on its way into the log, and what the server's answer to it means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import RequestRefused
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.log.full_stream import full_stream
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.model.identity import JobAddress

# Of an atomic batch. Incomplete: begun at another leader or before a restart, 10 s old, or one too
# many (that is how 2.12 says it; the limit is 50 begun ones per stream).
_BATCH_INCOMPLETE: Final = 10176
_TOO_MANY_BATCHES: Final = 10210
_RETRY_CODES: Final = frozenset({api.WRITE_IN_FLIGHT, _BATCH_INCOMPLETE, _TOO_MANY_BATCHES})
_SERVER_ERROR: Final = 500
_LAST_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d+)")


class Refused(Value, frozen=True):
    """The job moved on: its newest event has this sequence now (0: the log holds none)."""

    last_sequence: int


class PreparedEvent(Value, frozen=True):
    """One event ready to be sent, as often as it takes: same bytes, same guard, same id.

    `block` are its headers as they go out.
    """

    subject: str
    data: bytes
    block: bytes
    event_id: str
    job: JobAddress
    guard: int

    @property
    def parts(self) -> tuple[PreparedEvent, ...]:
        return (self,)

    @property
    def size(self) -> int:
        """As servers count it."""
        return len(self.block) + len(self.data)

    async def publish_once(self, connection: Connection, timeout: float) -> int | Refused | None:
        """The sequence, the refusal, or None: the server is not able to right now, so ask again."""
        return read_pub_ack(self.subject, await self.send(connection, timeout))

    def send(self, connection: Connection, timeout: float) -> Awaitable[Message]:
        return connection.start_request(self.subject, self.data, self.block, timeout)


def read_pub_ack(subject: str, message: Message) -> int | Refused | None:
    """A PubAck's sequence, a refusal, or None: try again, also when no server answers like that."""
    try:
        return _read(subject, message.data)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return None


def _read(subject: str, data: bytes) -> int | Refused | None:
    ack: dict[str, Any] = orjson.loads(data)
    error = ack.get("error")
    if error is None:
        return int(ack["seq"])
    code = int(error.get("err_code", 0))
    full = full_stream(str(ack.get("stream") or LOG), error)
    if full is not None:
        raise full
    if code in _RETRY_CODES or int(error.get("code", 0)) >= _SERVER_ERROR:
        return None
    if code == api.WRONG_LAST_SEQUENCE:
        found = _LAST_SEQUENCE.search(error.get("description", ""))
        if found:
            return Refused(int(found[1]))
    raise RequestRefused(subject, code, str(error.get("description", "no description")))
