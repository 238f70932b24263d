"""Values of posted forms and of addresses: durations, times and JSON, as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from trellis_jobs.model.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping


class FormInvalid(Exception):
    """A field has a value that cannot be used; the message names the field."""


def text(form: Mapping[str, str], name: str) -> str | None:
    """Returns None for a field that is missing or blank."""
    return form.get(name, "").strip() or None


def reason(form: Mapping[str, str]) -> str:
    """Why, for a change that must say it. Raises FormInvalid if it is missing or blank."""
    given = text(form, "reason")
    if given is None:
        raise FormInvalid("a reason is needed: it is recorded with the change")
    return given


def duration(form: Mapping[str, str], name: str) -> timedelta | None:
    """Raises FormInvalid."""
    given = text(form, name)
    if given is None:
        return None
    try:
        read = parse_duration(given)
    except OverflowError:
        read = None
    if not read:
        raise FormInvalid(f"{name}: {given!r} is not a duration such as 90s, 10m, 2h or 3d")
    return read


def moment(given: str, name: str) -> datetime:
    """A time with its zone, or in UTC. Raises FormInvalid."""
    try:
        read = datetime.fromisoformat(given)
    except ValueError:
        raise FormInvalid(f"{name}: {given!r} is not a time such as 2026-05-01T12:00Z") from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def json_value(form: Mapping[str, str], name: str) -> Any:
    """Raises FormInvalid."""
    try:
        return orjson.loads(form.get(name, "").strip() or "null")
    except orjson.JSONDecodeError as error:
        raise FormInvalid(f"{name} is not JSON: {error}") from None
