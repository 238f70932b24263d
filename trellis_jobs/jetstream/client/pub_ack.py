"""The server's acknowledgement of a guarded publish: stored, refused by its guard, or neither."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import RequestRefused
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.full_stream import full_stream
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.message import Message

# Errors of an atomic batch. Incomplete: it began with another leader or before a restart, is 10 s
# old, or exceeds the limit of 50 open batches per stream (2.12 reports that as incomplete too).
_BATCH_INCOMPLETE: Final = 10176
_TOO_MANY_BATCHES: Final = 10210
_RETRY_CODES: Final = frozenset({api.WRITE_IN_FLIGHT, _BATCH_INCOMPLETE, _TOO_MANY_BATCHES})
_SERVER_ERROR: Final = 500
_LAST_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d+)")


class Refused(Value, frozen=True):
    """The guarded subject has a newer message, with this sequence; 0 means that it has none."""

    last_sequence: int


def read_pub_ack(subject: str, message: Message, stream: str = LOG) -> int | Refused | None:
    """Returns the sequence, or the refusal, or None if the message must be sent again.

    A malformed acknowledgement also returns None. Raises StreamFull, and RequestRefused if the
    server refuses the message for another reason than its guard.
    """
    try:
        return _read(subject, message.data, stream)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return None


def _read(subject: str, data: bytes, stream: str) -> int | Refused | None:
    ack: dict[str, Any] = orjson.loads(data)
    error = ack.get("error")
    if error is None:
        return int(ack["seq"])
    code = int(error.get("err_code", 0))
    full = full_stream(str(ack.get("stream") or stream), error)
    if full is not None:
        raise full
    if code in _RETRY_CODES or int(error.get("code", 0)) >= _SERVER_ERROR:
        return None
    if code == api.WRONG_LAST_SEQUENCE:
        found = _LAST_SEQUENCE.search(error.get("description", ""))
        if found:
            return Refused(int(found[1]))
    raise RequestRefused(subject, code, str(error.get("description", "no description")))
