"""The context of a job ⇄ JSON, as events and key states carry it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trellis_jobs.model.context import JobContext, is_traceparent
from trellis_jobs.wire.fields import BadField, optional, required


def to_json(context: JobContext) -> dict[str, str]:
    body = {
        "requestId": context.request_id,
        "traceId": context.trace_id,
        "traceparent": context.traceparent,
    }
    if context.tracestate:
        body["tracestate"] = context.tracestate
    return body


def from_json(body: dict[str, Any]) -> JobContext:
    return _context(
        required(body, "requestId", str),
        required(body, "traceparent", str),
        optional(body, "tracestate", str) if "tracestate" in body else None,
    )


@lru_cache(maxsize=8192)
def _context(request_id: str, traceparent: str, tracestate: str | None) -> JobContext:
    """Cached, because the events of a job arrive close together."""
    if not is_traceparent(traceparent):
        raise BadField(f"traceparent {traceparent!r:.80} is not a W3C traceparent")
    return JobContext(request_id, traceparent, tracestate or None)
