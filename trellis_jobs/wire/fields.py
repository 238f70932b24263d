"""Reading JSON that a stranger may have written: every field is checked as it is taken."""

from __future__ import annotations

import reprlib
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import orjson

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import check_token

T = TypeVar("T")

_INT64_LIMIT: Final = 2**63
_MAX_POINTERS: Final = 1_000


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
    try:
        return orjson.dumps(body, option=orjson.OPT_UTC_Z)
    except orjson.JSONEncodeError:
        # Half a surrogate pair, as in a file name that is not UTF-8, must not cost the event.
        return orjson.dumps(_replace_surrogates(body), option=orjson.OPT_UTC_Z)


def add_present(body: dict[str, Any], **fields: object) -> None:
    """Leave out what is not there: nothing is ever written as null."""
    body.update({name: value for name, value in fields.items() if value is not None})


def is_too_deep(value: Any) -> bool:
    """JSON can be read deeper than it can be written, and what is read is told within other JSON.

    Of values that were read. Our own writers stay far below that (contract/payload_types.py).
    """
    if type(value) is not dict and type(value) is not list:
        return False
    try:
        orjson.dumps([[[[[[[[value]]]]]]]])
    except orjson.JSONEncodeError:
        return True
    return False


def any_json(body: dict[str, Any], name: str) -> Any:
    """Whatever a user put there."""
    value = body.get(name)
    if is_too_deep(value):
        raise BadField(f"{name} is nested too deep")
    return value


def required(body: dict[str, Any], name: str, kind: type[T]) -> T:
    """JSON has no types but its own: a truth value is no number, and databases hold 64 bits."""
    value = body.get(name)
    if type(value) is kind and (kind is not int or abs(body[name]) < _INT64_LIMIT):
        return value
    # reprlib: the value may be nested deeper than repr() can follow.
    raise BadField(f"{name} must be {kind.__name__}, found {reprlib.repr(value)}")


def optional(body: dict[str, Any], name: str, kind: type[T]) -> T | None:
    return None if body.get(name) is None else required(body, name, kind)


def non_empty_text(body: dict[str, Any], name: str) -> str:
    """Not empty."""
    value = required(body, name, str)
    if not value:
        raise BadField(f"{name} cannot be empty")
    return value


def count(body: dict[str, Any], name: str, *, least: int = 0) -> int:
    value = body.get(name)
    if type(value) is int and least <= value < _INT64_LIMIT:
        return value
    found = required(body, name, int)
    raise BadField(f"{name} must be at least {least}, found {found}")


def as_token(name: str, value: str) -> str:
    """What becomes part of a subject somewhere: unchecked, it could be a command to the server."""
    try:
        return check_token(name, value)
    except InvalidToken as error:
        raise BadField(str(error)) from None


def token(body: dict[str, Any], name: str) -> str:
    return as_token(name, required(body, name, str))


def version(body: dict[str, Any]) -> int:
    """Of a payload: the first, where nobody says."""
    return count(body, "payloadVersion", least=1) if "payloadVersion" in body else 1


def secret_pointers(body: dict[str, Any], name: str) -> tuple[str, ...]:
    """Where in a value secrets are."""
    found = optional(body, name, list) or ()
    if len(found) > _MAX_POINTERS or not all(isinstance(place, str) for place in found):
        raise BadField(f"{name} must be a list of at most {_MAX_POINTERS} texts")
    return tuple(found)


def objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries: list[Any] = required(body, name, list)
    if not all(isinstance(entry, dict) for entry in entries):
        raise BadField(f"{name} must be a list of objects")
    return entries


def timestamp(body: dict[str, Any], name: str) -> datetime:
    non_empty_text = body.get(name)
    if type(non_empty_text) is not str:
        non_empty_text = required(body, name, str)
    try:
        at = datetime.fromisoformat(non_empty_text.upper())
        if at.tzinfo is not None:
            return at if at.tzinfo is UTC else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadField(f"{name} must be an RFC 3339 time, found {non_empty_text!r:.80}") from None
    raise BadField(f"{name} must name its offset from UTC, found {non_empty_text!r:.80}")


def optional_timestamp(body: dict[str, Any], name: str) -> datetime | None:
    return None if body.get(name) is None else timestamp(body, name)


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {
            _replace_surrogates(name): _replace_surrogates(member) for name, member in value.items()
        }
    return [_replace_surrogates(member) for member in value] if isinstance(value, list) else value
