"""The filter that selects jobs in lists and bulk operations."""

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
    """A field that is None does not restrict the selection.

    `since` and `until` compare with the time of the job's last change. A number or boolean in
    `payload` also matches the same value stored as text, because a caller may not know the type;
    text matches only text.
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
        is_empty_range = (
            self.since is not None and self.until is not None and self.since >= self.until
        )
        return is_empty_range or (self.states is not None and not self.states)

    @property
    def is_counted(self) -> bool:
        """True if only service, type, state and error are set: the projection counts by them."""
        return not (self.since or self.until or self._is_looked_up)

    @property
    def is_counted_by_change(self) -> bool:
        """True if only service, type, state and the time of the last change are set."""
        return self.error is None and not self._is_looked_up

    @property
    def _is_looked_up(self) -> bool:
        return bool(self.key or self.id_prefix or self.payload)
