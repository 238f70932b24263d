"""Times in the zone of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from datetime import datetime


def zone_time(moment: datetime, zone: str | None) -> str:
    """`Mon 2026-05-04 09:00:00 CEST`; empty for a zone that this machine does not know."""
    try:
        there = moment.astimezone(ZoneInfo(zone or "UTC"))
    except (KeyError, ValueError, OSError):
        return ""
    return f"{there:%a %Y-%m-%d %H:%M:%S %Z}"
