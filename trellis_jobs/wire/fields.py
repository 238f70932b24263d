"""Reading JSON that a stranger may have written: every field is checked as it is taken."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import orjson

T = TypeVar("T")


class BadField(ValueError):
    """A message is not what it should be; turned into a value before it leaves `wire`."""


def loads(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadField(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadField(f"a JSON object is expected, this is {type(body).__name__}")
    return body


def dumps(body: dict[str, Any]) -> bytes:
    """JSON with RFC 3339 times; None is left out by the writers, never written as null."""
    return orjson.dumps(body, option=orjson.OPT_UTC_Z)


def required(body: dict[str, Any], name: str, kind: type[T]) -> T:
    value = body.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadField(f"{name} must be {kind.__name__}, found {value!r:.80}")
    return value


def optional(body: dict[str, Any], name: str, kind: type[T]) -> T | None:
    return None if body.get(name) is None else required(body, name, kind)


def count(body: dict[str, Any], name: str, *, least: int = 0) -> int:
    value = required(body, name, int)
    if value < least:
        raise BadField(f"{name} must be at least {least}, found {value}")
    return value


def moment(body: dict[str, Any], name: str) -> datetime:
    text = required(body, name, str)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadField(f"{name} must be an RFC 3339 time, found {text!r:.80}") from None
    if at.tzinfo is None:
        raise BadField(f"{name} must name its offset from UTC, found {text!r:.80}")
    return at


def optional_moment(body: dict[str, Any], name: str) -> datetime | None:
    return None if body.get(name) is None else moment(body, name)
