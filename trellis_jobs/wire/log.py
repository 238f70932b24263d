"""Decode messages of the log: events and worker heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model import subjects
from trellis_jobs.wire import events, presence
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.model.job import Entry
    from trellis_jobs.model.presence import WorkerHeartbeat


def read(
    subject: str, sequence: int, data: bytes, headers: Mapping[str, str] | None
) -> Entry | WorkerHeartbeat | Undecodable:
    """Decode a message. An event's body must agree with its subject (design D21)."""
    under = subjects.parse(subject)
    if isinstance(under, subjects.LifecycleSubject):
        decoded = events.decode(data, expected=under.job, sequence=sequence, headers=headers)
        if isinstance(decoded, Undecodable) or decoded.event.kind is under.kind:
            return decoded
        return Undecodable(
            sequence, f"a {decoded.event.kind} event under the subject of another kind"
        )
    if isinstance(under, subjects.PresenceSubject):
        beat = presence.decode(data, expected=under)
        return Undecodable(sequence, beat) if isinstance(beat, str) else beat
    return Undecodable(sequence, "the subject is not one of events or heartbeats")
