"""How much of a key's lease is left, and whether its holder still renews it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.api.views.keys import HolderView, KeyView

# A holder renews its lease long before this share of it is left.
_LITTLE: Final = 0.34


@dataclass(frozen=True, slots=True)
class Lease:
    """`share` of its length is left, from 0 to 1."""

    left: timedelta
    share: float

    @property
    def has_expired(self) -> bool:
        return self.left <= timedelta(0)

    @property
    def kind(self) -> str:
        """The colour of its bar."""
        if self.has_expired:
            return "bad"
        return "warn" if self.share < _LITTLE else "good"

    @property
    def words(self) -> str:
        if self.has_expired:
            return f"expired {format_duration(-self.left)} ago"
        return f"{format_duration(self.left)} left"


def lease_of(holder: HolderView) -> Lease:
    """Both times of a lease are from its holder's clock; the age of the renewal is the server's."""
    length = holder.lease_expires_at - holder.heartbeat_at
    left = length - timedelta(milliseconds=holder.heartbeat_age_ms)
    return Lease(left, max(0.0, min(1.0, left / length)) if length else 0.0)


def oldest_waiting(key: KeyView) -> datetime | None:
    return min((each.created_at for each in key.queued), default=None)
