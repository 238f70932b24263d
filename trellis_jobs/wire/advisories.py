"""Decode MaxDeliver advisories: the server will not deliver a work message again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.wire.fields import BadField, count, loads, timestamp, token

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class MaxDeliveries:
    """`sequence` is the stream sequence of the message, from which the job can be looked up."""

    stream: str
    consumer: str
    sequence: int
    deliveries: int
    at: datetime


def decode(data: bytes) -> MaxDeliveries | str:
    """Return the advisory, or why the bytes are not one."""
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
    return count(body, name if name in body else other, minimum=1)
