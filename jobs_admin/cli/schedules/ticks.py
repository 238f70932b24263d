"""The table of the next ticks of a schedule."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from rich.table import Table

from jobs_admin.api.views.schedules import ScheduleDetailView, TickView
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import console
from jobs_admin.cli.render.times import ago, local_stamp, short_stamp, stamp_in
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.schedules.time_zone import load_zone

_UTC: Final = "UTC"
_LOCAL: Final = "local time"
_CREATED: Final = "job is created"


def tick_table(schedule: ScheduleDetailView, now: datetime) -> Table:
    """Each tick in the schedule's time zone, in the local one, and in UTC.

    With jitter, also when the job is created, which is later.
    """
    zone_name = _zone_of(schedule)
    zone = _load(zone_name)
    names = [_LOCAL, _UTC, "in"]
    if zone is not None and zone_name is not None:
        names.insert(0, zone_name)
    if any(each.at != each.tick for each in schedule.next_ticks):
        names.append(_CREATED)
    rows = [_row(each, zone_name, zone, now) for each in schedule.next_ticks]
    return fit_table(Columns(names=names, dropped_first=[_LOCAL]), rows, console().width)


def _row(tick: TickView, zone_name: str | None, zone: tzinfo | None, now: datetime) -> Row:
    row: dict[str, str] = {
        _LOCAL: local_stamp(tick.tick),
        _UTC: short_stamp(tick.tick),
        "in": ago(tick.tick, now).removeprefix("in "),
        _CREATED: f"{format_duration(tick.at - tick.tick)} later",
    }
    if zone is not None and zone_name is not None:
        row[zone_name] = stamp_in(zone, tick.tick)
    return row


def _zone_of(schedule: ScheduleDetailView) -> str | None:
    """None if it is UTC, which has its own column."""
    zone = None if schedule.definition is None else schedule.definition.time_zone
    return None if zone == _UTC else zone


def _load(zone: str | None) -> tzinfo | None:
    """None if this machine does not know the time zone."""
    try:
        return None if zone is None else load_zone(zone)
    except DeclarationError:
        return None
