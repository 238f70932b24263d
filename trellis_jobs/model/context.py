"""A job's request id and W3C trace context: created with the job, repeated on every event."""

from __future__ import annotations

import re
from typing import Final

from trellis_jobs.model.values import Value

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


class JobContext(Value, frozen=True):
    request_id: str
    traceparent: str
    tracestate: str | None = None

    @property
    def trace_id(self) -> str:
        return self.traceparent[3:35]


def fresh_traceparent(randomness: int) -> str:
    """Build a sampled W3C traceparent from 192 random bits, for a job created outside any trace."""
    digits = f"{randomness:048x}"
    return f"00-{digits[:32]}-{digits[32:]}-01"


def is_traceparent(text: str) -> bool:
    found = _TRACEPARENT.fullmatch(text)
    return found is not None and found[1] != _NO_TRACE and found[2] != _NO_SPAN
