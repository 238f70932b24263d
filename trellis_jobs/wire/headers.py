"""NATS headers of events: built for publishers, checked for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.model.context import JobContext

EVENT_ID: Final = "Trellis-Event-Id"
RUN_SEQUENCE: Final = "Trellis-Run-Seq"
ALARM_SET_AT: Final = "Trellis-Alarm-Set-At"
ALARM_AT: Final = "Trellis-Alarm-At"
STREAM_SOURCE: Final = "Nats-Stream-Source"
EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
MESSAGE_ID: Final = "Nats-Msg-Id"
TTL: Final = "Nats-TTL"
STORED_SEQUENCE: Final = "Nats-Sequence"
ROLLUP: Final = "Nats-Rollup"
SCHEDULE: Final = "Nats-Schedule"
SCHEDULE_TARGET: Final = "Nats-Schedule-Target"
BATCH_ID: Final = "Nats-Batch-Id"
BATCH_SEQUENCE: Final = "Nats-Batch-Sequence"
BATCH_COMMIT: Final = "Nats-Batch-Commit"
# The states besides those of the first version that the sender of a request knows.
KNOWN_STATES: Final = "known-states"
# Marks a request to the admin runtime that only tests whether publishing it is permitted.
PERMISSION_CHECK: Final = "permission-check"

# A stored message with one of these headers is a reply of the server itself, to a request whose
# reply subject was the subject of a job (design D21).
OF_SERVER_REPLIES: Final = frozenset({"Nats-Stream", "Nats-Sequence", "Status"})

_NO_STATUS: Final = b"NATS/1.0\r\n"

# Limits for sequences, which are unsigned 64-bit numbers: any client can write these headers.
_MAX_DIGITS: Final = 20
_SEQUENCE_LIMIT: Final = 2**64


def of_event(context: JobContext, event_id: str) -> dict[str, str]:
    headers = {
        "request-id": context.request_id,
        "traceparent": context.traceparent,
        EVENT_ID: event_id,
    }
    if context.tracestate:
        headers["tracestate"] = context.tracestate
    return headers


def block(headers: Mapping[str, str]) -> bytes:
    """Encode headers as the block that precedes the data of a message."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not lines.count("\n") == lines.count("\r") == len(headers):
        # A line break in a value would start another header.
        return block({name: " ".join(value.split()) for name, value in headers.items()})
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def guarded_block(context: JobContext, event_id: str, sequence: int, subject: str) -> bytes:
    """Headers of an event that the server refuses unless `sequence` is the newest of `subject`.

    The common case is written out, because every append builds this block.
    """
    if context.tracestate or not context.request_id.isprintable():
        guard = {EXPECTED_SEQUENCE: str(sequence), EXPECTED_SUBJECT: subject}
        return block(of_event(context, event_id) | guard)
    return (
        f"NATS/1.0\r\nrequest-id: {context.request_id}\r\ntraceparent: {context.traceparent}\r\n"
        f"{EVENT_ID}: {event_id}\r\n{EXPECTED_SEQUENCE}: {sequence}\r\n"
        f"{EXPECTED_SUBJECT}: {subject}\r\n\r\n"
    ).encode()


def in_batch(event_block: bytes, batch_id: str, place: int, size: int) -> bytes:
    """Headers of event number `place` (from 1) in an atomic batch; the last one commits it."""
    commit = f"{BATCH_COMMIT}: 1\r\n" if place == size else ""
    lines = f"{BATCH_ID}: {batch_id}\r\n{BATCH_SEQUENCE}: {place}\r\n{commit}\r\n"
    return event_block[: -len("\r\n")] + lines.encode()


def is_server_reply(headers: Mapping[str, str]) -> bool:
    return not OF_SERVER_REPLIES.isdisjoint(headers)


def may_be_server_reply(block: bytes) -> bool:
    """A quick test of raw headers that is False for our own events, so they need no parsing."""
    return bool(block) and (
        b"Nats-S" in block or b"Status" in block or not block.startswith(_NO_STATUS)
    )


def source_sequence(headers: Mapping[str, str]) -> int | None:
    """The log sequence of a work message's event, whether the server sourced it or we requeued it.

    Nats-Stream-Source is `<stream>[:C=<consumer>] <sequence> …`; the rest differs by version.
    """
    put_back = headers.get(RUN_SEQUENCE)
    if put_back is not None:
        return _number(put_back)
    fields = headers.get(STREAM_SOURCE, "").split(" ")
    return _number(fields[1]) if len(fields) > 1 else None


def republished_sequence(headers: Mapping[str, str]) -> int | None:
    """The sequence of a stored message that its stream republishes; the server's header is last."""
    return _number(headers.get(STORED_SEQUENCE, "").rsplit("\n", 1)[-1])


def _number(text: str) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        return None
    number = int(text)
    return number if number < _SEQUENCE_LIMIT else None
