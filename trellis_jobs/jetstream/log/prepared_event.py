"""An encoded event, ready to be published, and the server's acknowledgement of it."""

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

# Errors of an atomic batch. Incomplete: it began with another leader or before a restart, is 10 s
# old, or exceeds the limit of 50 open batches per stream (2.12 reports that as incomplete too).
_BATCH_INCOMPLETE: Final = 10176
_TOO_MANY_BATCHES: Final = 10210
_RETRY_CODES: Final = frozenset({api.WRITE_IN_FLIGHT, _BATCH_INCOMPLETE, _TOO_MANY_BATCHES})
_SERVER_ERROR: Final = 500
_LAST_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d+)")


class Refused(Value, frozen=True):
    """The job has a newer event, with this sequence; 0 means that the log has no event of it."""

    last_sequence: int


class PreparedEvent(Value, frozen=True):
    """One event that can be sent repeatedly, with the same bytes, guard and id.

    `block` is the encoded header block.
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
        """The size that the server compares with max_payload."""
        return len(self.block) + len(self.data)

    async def publish_once(self, connection: Connection, timeout: float) -> int | Refused | None:
        """Returns the sequence, or the refusal, or None if the event must be sent again."""
        return read_pub_ack(self.subject, await self.send(connection, timeout))

    def send(self, connection: Connection, timeout: float) -> Awaitable[Message]:
        return connection.start_request(self.subject, self.data, self.block, timeout)


def read_pub_ack(subject: str, message: Message) -> int | Refused | None:
    """Returns the sequence, or the refusal, or None if the event must be sent again.

    A malformed acknowledgement also returns None.
    """
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
