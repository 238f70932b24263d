"""Schedules in a manifest."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import orjson
from pydantic import Field

from trellis_jobs.contract.documents import Part, Token
from trellis_jobs.contract.option_kinds import Count, Milliseconds, require
from trellis_jobs.contract.schedules import Cron, Every, Schedule
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.identity import check_token
from trellis_jobs.model.schedules.definition import (
    DEFAULT_MAX_CATCH_UP,
    CronTiming,
    ScheduleDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_MILLISECOND: Final = timedelta(milliseconds=1)
# They are part of the metadata of the queue's consumer (contract/consumer_metadata.py).
MAX_SCHEDULES_LENGTH: Final = 8 * 1024


class ScheduleEntry(Part):
    """`cron` and `timeZone`, or `everyMs`. `payload` is the payload of every job."""

    cron: str | None = None
    time_zone: str | None = None
    every_ms: Milliseconds | None = None
    payload: Any = None
    jitter_ms: Milliseconds | None = None
    start: str | None = None
    end: str | None = None
    catch_up: Literal["skip", "once", "all"] = "once"
    max_catch_up: Count | None = None
    overlap: Literal["allow", "skip", "replace", "cancel-running"] = "allow"


ScheduleEntries: TypeAlias = Annotated[
    dict[Token, ScheduleEntry], Field(json_schema_extra={"additionalProperties": False})
]


def schedules_to_json(schedules: Mapping[str, ScheduleDefinition]) -> dict[str, Any]:
    return {name: _entry(definition) for name, definition in sorted(schedules.items())}


def _entry(definition: ScheduleDefinition) -> dict[str, Any]:
    timing, limit = definition.timing, definition.max_catch_up
    when: dict[str, Any] = (
        {"cron": timing.expression, "timeZone": timing.zone}
        if isinstance(timing, CronTiming)
        else {"everyMs": timing.every // _MILLISECOND}
    )
    rest = {
        "jitterMs": definition.jitter // _MILLISECOND or None,
        "start": _time(definition.start),
        "end": _time(definition.end),
        "catchUp": definition.catch_up.value,
        "maxCatchUp": None if limit == DEFAULT_MAX_CATCH_UP else limit,
        "overlap": definition.overlap.value,
    }
    given = {name: value for name, value in rest.items() if value is not None}
    return {**when, "payload": definition.payload, **given}


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat().replace("+00:00", "Z")


def schedules_from_json(entries: Mapping[str, ScheduleEntry]) -> dict[str, Schedule]:
    """Raises DeclarationError, which names the schedule."""
    return {name: _read_entry(name, entry) for name, entry in entries.items()}


def _read_entry(name: str, entry: ScheduleEntry) -> Schedule:
    options: dict[str, Any] = {
        "payload": entry.payload,
        "jitter": (entry.jitter_ms or 0) * _MILLISECOND,
        "start": entry.start,
        "end": entry.end,
        "catch_up": entry.catch_up,
        "max_catch_up": entry.max_catch_up or DEFAULT_MAX_CATCH_UP,
        "overlap": entry.overlap,
    }
    try:
        if entry.cron is not None:
            require(entry.every_ms is None, "it has both cron and everyMs")
            return Cron(entry.cron, tz=entry.time_zone or "UTC", **options)
        if entry.every_ms is None:
            raise DeclarationError("it has neither cron nor everyMs")
        require(entry.time_zone is None, "timeZone needs cron")
        return Every(entry.every_ms * _MILLISECOND, **options)
    except DeclarationError as error:
        raise DeclarationError(f"schedules.{name}: {error}") from error


def check_schedules(option: str, schedules: Mapping[str, ScheduleDefinition]) -> None:
    for name in schedules:
        check_token("schedule", name)
    length = len(orjson.dumps(schedules_to_json(schedules)))
    require(
        length <= MAX_SCHEDULES_LENGTH,
        f"{option} would have {length:,} bytes as JSON, and {MAX_SCHEDULES_LENGTH:,} are possible: "
        "make schedules at run time, or put a reference to larger data into the payload",
    )
