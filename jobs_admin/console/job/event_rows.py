"""The events of a job as rows: what each says, what it did, and how many notes lie between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.console.job.job_log import is_note
from jobs_admin.explain.event_words import event_name, event_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from trellis_jobs.model.timeline import TimelineEntry

PAGE_SIZE: Final = 100
_MAX_WORDS: Final = 300
_NOT_AN_EVENT: Final = "unknown"


@dataclass(frozen=True, slots=True)
class EventRow:
    """`state` is the job's after the event; `notes` is how many hidden notes follow it."""

    sequence: int
    at: datetime
    name: str
    words: str
    state: str | None
    ignored: str | None
    is_note: bool
    notes: int = 0


@dataclass(frozen=True, slots=True)
class EventPage:
    """`after` is the sequence at which the next page begins; None if there is none."""

    rows: tuple[EventRow, ...]
    after: int | None


def event_row(entry: TimelineEntry, notes: int = 0) -> EventRow:
    event = entry.event
    return EventRow(
        sequence=entry.record.sequence,
        at=entry.at,
        name=_NOT_AN_EVENT if event is None else event_name(event),
        words=_shortened(event_words(event, entry.job)) if event is not None else "",
        state=entry.job.state.value if entry.job else None,
        ignored=entry.ignored,
        is_note=is_note(entry) and entry.ignored is None,
        notes=notes,
    )


def event_page(
    history: Sequence[TimelineEntry], *, after: int, with_notes: bool, size: int = PAGE_SIZE
) -> EventPage:
    """A page after a sequence; without notes, each row has the number of those that follow it."""
    rows: list[tuple[TimelineEntry, int]] = []
    for entry in history:
        if entry.record.sequence <= after:
            continue
        if with_notes or not is_note(entry) or entry.ignored is not None or not rows:
            rows.append((entry, 0))
        else:
            last, notes = rows[-1]
            rows[-1] = (last, notes + 1)
    shown = rows[:size]
    return EventPage(
        tuple(event_row(entry, notes) for entry, notes in shown),
        shown[-1][0].record.sequence if len(rows) > size else None,
    )


def sequences(history: Iterable[TimelineEntry]) -> list[int]:
    return [entry.record.sequence for entry in history]


def _shortened(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _MAX_WORDS else f"{line[:_MAX_WORDS]}…"
