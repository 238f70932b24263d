"""Builders of schedules for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.changes import Author, create
from trellis_jobs.model.schedules.definition import (
    CronTiming,
    IntervalTiming,
    ScheduleDefinition,
)
from trellis_jobs.model.schedules.record import Origin, ScheduleRecord
from trellis_jobs.model.values import replace

NIGHTLY: Final = ScheduleAddress("documents", "render-report", "nightly")
DEPLOY: Final = Author(Origin.CONTRACT)
ANN: Final = Author(Origin.RUNTIME, "ann")
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression: str, zone: str = "UTC", **fields: Any) -> ScheduleDefinition:
    return ScheduleDefinition(
        timing=CronTiming(expression, zone), **{"payload": {"doc": "d-1"}, **fields}
    )


def every(interval: timedelta | float, **fields: Any) -> ScheduleDefinition:
    span = interval if isinstance(interval, timedelta) else timedelta(seconds=interval)
    return ScheduleDefinition(timing=IntervalTiming(span), **{"payload": {"doc": "d-1"}, **fields})


def record(definition: ScheduleDefinition, since: datetime, **fields: Any) -> ScheduleRecord:
    return replace(create(NIGHTLY, definition, author=DEPLOY, now=since).record, **fields)
