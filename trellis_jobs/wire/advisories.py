"""The server's word that it will deliver a work message no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.wire.fields import BadField, count, loads, timestamp, token

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class MaxDeliveries:
    """`sequence` is of the message in its stream; whose job it is, only the message says."""

    stream: str
    consumer: str
    sequence: int
    deliveries: int
    at: datetime


def decode(data: bytes) -> MaxDeliveries | str:
    """The advisory, or why it is none."""
    try:
        body = loads(data)
        return MaxDeliveries(
            token(body, "stream"),
            token(body, "consumer"),
            _either(body, "stream_seq", "streamSeq"),
            _either(body, "deliveries", "num_deliveries"),
            timestamp(body, "timestamp"),
        )
    except BadField as problem:
        return str(problem)


def _either(body: dict[str, Any], name: str, other: str) -> int:
    return count(body, name if name in body else other, least=1)
