"""The form that makes or changes a schedule: its fields, and what they mean."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.console import form_values
from jobs_admin.console.form_values import FormInvalid
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.durations import compact_duration
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.definition import DEFAULT_MAX_CATCH_UP, CatchUp, Overlap

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobs_admin.api.schedule_client import ScheduleArguments
    from jobs_admin.api.views.schedules import ScheduleDetailView

FIELDS: Final = (
    "service",
    "type",
    "name",
    "cron",
    "time_zone",
    "every",
    "jitter",
    "start",
    "end",
    "catch_up",
    "max_catch_up",
    "overlap",
    "payload",
    "reason",
)
_DEFAULTS: Final = {
    "catch_up": CatchUp.ONCE.value,
    "max_catch_up": str(DEFAULT_MAX_CATCH_UP),
    "overlap": Overlap.ALLOW.value,
    "payload": "{}",
}


def blank_form(query: Mapping[str, str]) -> dict[str, str]:
    """A form with the defaults, and with what the address of the page names."""
    return {name: query.get(name, _DEFAULTS.get(name, "")) for name in FIELDS}


def form_of(schedule: ScheduleDetailView) -> dict[str, str]:
    """The form that would make this schedule again. Redacted values must be entered again."""
    definition = schedule.definition
    known: dict[str, Any] = {} if definition is None else definition.model_dump(exclude_none=True)
    texts = {name: str(known[name]) for name in FIELDS if name in known}
    durations = {
        name: compact_duration(timedelta(milliseconds=known[f"{name}_ms"]))
        for name in ("every", "jitter")
        if known.get(f"{name}_ms")
    }
    times = {name: known[name].isoformat() for name in ("start", "end") if name in known}
    address = {"service": schedule.service, "type": schedule.type, "name": schedule.name}
    payload = orjson.dumps(schedule.payload, option=orjson.OPT_INDENT_2).decode()
    return blank_form({}) | texts | durations | times | address | {"payload": payload}


def address_of(form: Mapping[str, str]) -> ScheduleAddress:
    """Raises FormInvalid."""
    try:
        return ScheduleAddress(
            *(form.get(each, "").strip() for each in ("service", "type", "name"))
        )
    except InvalidToken as error:
        raise FormInvalid(str(error)) from None


def arguments_of(form: Mapping[str, str]) -> ScheduleArguments:
    """Raises FormInvalid."""
    cron, every = form_values.text(form, "cron"), form_values.duration(form, "every")
    if (cron is None) == (every is None):
        raise FormInvalid("give either a cron expression or an interval")
    try:
        catch_up, overlap = CatchUp(form.get("catch_up", "")), Overlap(form.get("overlap", ""))
        max_catch_up = int(form.get("max_catch_up", ""))
    except ValueError as error:
        raise FormInvalid(str(error)) from None
    return {
        "cron": cron,
        "time_zone": form_values.text(form, "time_zone") if cron is not None else None,
        "every": every,
        "jitter": form_values.duration(form, "jitter"),
        "start": _moment(form, "start"),
        "end": _moment(form, "end"),
        "catch_up": catch_up,
        "max_catch_up": max_catch_up,
        "overlap": overlap,
    }


def _moment(form: Mapping[str, str], name: str) -> datetime | None:
    given = form_values.text(form, name)
    return None if given is None else form_values.moment(given, name)
