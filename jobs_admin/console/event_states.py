"""The state that an event leads to, for its colour and sign."""

from __future__ import annotations

from typing import Final

from trellis_jobs.model.events import EventKind
from trellis_jobs.model.reducer import RULES

_KINDS: Final = frozenset(kind.value for kind in EventKind)


def state_after(kind: str) -> str | None:
    """Return None for an event that leaves the job as it is, or that is not known."""
    leads_to = RULES[EventKind(kind)].leads_to if kind in _KINDS else None
    return None if leads_to is None else leads_to.value
