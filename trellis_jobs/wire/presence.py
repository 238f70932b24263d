"""Worker heartbeats ⇄ JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.presence import WorkerHeartbeat, in_milliseconds
from trellis_jobs.wire.fields import BadField, count, dumps, loads, optional, required, timestamp

if TYPE_CHECKING:
    from trellis_jobs.model.subjects import PresenceSubject

# An upper bound that a timedelta can represent; no worker needs more.
_MAX_MS: Final = 10**12


def encode(beat: WorkerHeartbeat) -> bytes:
    body: dict[str, Any] = {
        "service": beat.service,
        "jobType": beat.job_type,
        "instanceId": beat.instance,
        "timestamp": beat.at,
    }
    if beat.concurrency is not None:
        body["concurrency"] = beat.concurrency
    if beat.version is not None:
        body["version"] = beat.version
    if beat.contract is not None:
        body["contractDigest"] = beat.contract
    if beat.stopping:
        body["stopping"] = True
    for name, span in (
        ("intervalMs", beat.interval),
        ("loopBlockedMs", beat.loop_blocked),
        ("clockOffsetMs", beat.clock_ahead),
    ):
        if span is not None:
            body[name] = in_milliseconds(span)
    return dumps(body)


def decode(data: bytes, *, expected: PresenceSubject) -> WorkerHeartbeat | str:
    """Return the heartbeat, or why the bytes are not one."""
    try:
        body = loads(data)
        beat = WorkerHeartbeat(
            service=required(body, "service", str),
            job_type=required(body, "jobType", str),
            instance=required(body, "instanceId", str),
            at=timestamp(body, "timestamp"),
            concurrency=optional(body, "concurrency", int),
            version=optional(body, "version", str),
            stopping=optional(body, "stopping", bool) or False,
            interval=_milliseconds(body, "intervalMs"),
            loop_blocked=_milliseconds(body, "loopBlockedMs"),
            contract=optional(body, "contractDigest", str),
            clock_ahead=_offset(body),
        )
    except BadField as error:
        return str(error)
    if (beat.service, beat.job_type, beat.instance) != (
        expected.service,
        expected.job_type,
        expected.instance,
    ):
        return f"the body names {beat.service}/{beat.job_type}, the subject {expected}"
    return beat


def _milliseconds(body: dict[str, Any], name: str) -> timedelta | None:
    if body.get(name) is None:
        return None
    return timedelta(milliseconds=min(count(body, name), _MAX_MS))


def _offset(body: dict[str, Any]) -> timedelta | None:
    """The clock offset, which is negative if the worker's clock is behind the server's."""
    offset = optional(body, "clockOffsetMs", int)
    if offset is None:
        return None
    return timedelta(milliseconds=max(-_MAX_MS, min(offset, _MAX_MS)))
