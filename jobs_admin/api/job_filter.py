"""Which jobs a request is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from trellis_jobs.model.states import JobState

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What is left out does not narrow.

    `since` and `until` are about the last change: jobs that changed since then, and jobs of which
    everything happened before. A number, true or false of a payload is found as text too: who
    looks for one may not know which it is. Text is only text.
    """

    service: str | None = None
    type: str | None = None
    states: Sequence[JobState] | None = None
    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None
    id_prefix: str | None = None
    error: str | None = None
    payload: Mapping[str, Scalar] | None = None

    @property
    def is_impossible(self) -> bool:
        is_no_time = self.since is not None and self.until is not None and self.since >= self.until
        return is_no_time or (self.states is not None and not self.states)

    @property
    def is_counted(self) -> bool:
        """Only service, type, state and error: those are counted as jobs move."""
        return not (self.since or self.until or self._is_looked_up)

    @property
    def is_counted_by_change(self) -> bool:
        """Beside service, type and state only when they last changed, which is counted too."""
        return self.error is None and not self._is_looked_up

    @property
    def _is_looked_up(self) -> bool:
        return bool(self.key or self.id_prefix or self.payload)
