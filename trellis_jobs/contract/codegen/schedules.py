"""Generate the schedules of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.codegen.layout import literal, long_text, seconds
from trellis_jobs.model.schedules.definition import (
    DEFAULT_MAX_CATCH_UP,
    CatchUp,
    CronTiming,
    Overlap,
    ScheduleDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DEFAULT_ZONE: Final = "UTC"


def schedules_source(schedules: Mapping[str, ScheduleDefinition], needed: set[str]) -> str:
    """A dictionary of Cron(...) and Every(...). Adds the names that it uses to `needed`."""
    entries = [
        f"{literal(name)}: {_call(definition, needed)}" for name, definition in schedules.items()
    ]
    return f"{{{', '.join(entries)}}}"


def _call(definition: ScheduleDefinition, needed: set[str]) -> str:
    timing = definition.timing
    if isinstance(timing, CronTiming):
        name, first = "Cron", [long_text(timing.expression)]
        if timing.zone != _DEFAULT_ZONE:
            first.append(f"tz={literal(timing.zone)}")
    else:
        name, first = "Every", [seconds(timing.every)]
    needed.add(name)
    return f"{name}({', '.join([*first, *_options(definition)])})"


def _options(definition: ScheduleDefinition) -> Iterator[str]:
    """The payload, and the options that differ from their defaults."""
    yield f"payload={_json(definition.payload)}"
    if definition.jitter:
        yield f"jitter={seconds(definition.jitter)}"
    for name, time in (("start", definition.start), ("end", definition.end)):
        if time is not None:
            yield f"{name}={literal(time.isoformat())}"
    if definition.catch_up is not CatchUp.ONCE:
        yield f"catch_up={literal(definition.catch_up.value)}"
    if definition.max_catch_up != DEFAULT_MAX_CATCH_UP:
        yield f"max_catch_up={definition.max_catch_up}"
    if definition.overlap is not Overlap.ALLOW:
        yield f"overlap={literal(definition.overlap.value)}"


def _json(value: Any) -> str:
    """Like literal(), with long texts in chunks at any depth."""
    if isinstance(value, str):
        return long_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_json(k)}: {_json(v)}' for k, v in value.items())}}}"
    return literal(value)
