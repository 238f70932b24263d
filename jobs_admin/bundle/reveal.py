"""Put the secrets of a job back into its events, from which they were redacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trellis_jobs.model.redaction import redacted
from trellis_jobs.wire.fields import secret_pointers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobs_admin.api.views.jobs import JobSecrets, LogEntry
    from trellis_jobs.model.json_values import Json


def reveal(entries: Iterable[LogEntry], secrets: JobSecrets) -> tuple[LogEntry, ...]:
    """All runs of a job have the same payload, and at most one has a result."""
    known = {"payload": secrets.payload, "result": secrets.result}
    return tuple(
        entry
        if entry.event is None
        else entry.model_copy(update={"event": _revealed(entry.event, known)})
        for entry in entries
    )


def _revealed(event: dict[str, Any], known: Mapping[str, Json]) -> dict[str, Any]:
    """Only a value that is the same apart from its secrets is replaced."""
    hidden = secret_pointers(event, "secrets")
    same = {
        name: value
        for name, value in known.items()
        if name in event and hidden and redacted(value, hidden) == event[name]
    }
    return {**event, **same}
