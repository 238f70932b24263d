"""Read fields of untrusted JSON; each is checked when it is read."""

from __future__ import annotations

import reprlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import orjson

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.durations import LONGEST
from trellis_jobs.model.identity import check_token
from trellis_jobs.model.worker_record import MAX_LABEL_LENGTH

T = TypeVar("T")

_INT64_LIMIT: Final = 2**63
_MAX_POINTERS: Final = 1_000
MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_MILLISECONDS: Final = LONGEST // MILLISECOND


class BadField(ValueError):
    """A field of a message is invalid. Decoders catch it and return a value instead."""


def loads(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadField(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadField(f"expected a JSON object, found {type(body).__name__}")
    return body


def dumps(body: dict[str, Any]) -> bytes:
    """Encode as JSON with RFC 3339 times. Callers leave out None, so it is not written as null."""
    try:
        return orjson.dumps(body, option=orjson.OPT_UTC_Z)
    except orjson.JSONEncodeError:
        # A lone surrogate, as from a file name that is not UTF-8, must not make an event fail.
        return orjson.dumps(_replace_surrogates(body), option=orjson.OPT_UTC_Z)


def add_present(body: dict[str, Any], **fields: object) -> None:
    """Add the fields that are not None, so that nothing is written as null."""
    body.update({name: value for name, value in fields.items() if value is not None})


def unknown_fields(body: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """The fields of other versions and runtimes, which are preserved. Raises BadField."""
    unknown = {name: value for name, value in body.items() if name not in known}
    if is_too_deep(unknown):
        raise BadField(f"{sorted(unknown)} are nested too deep to be preserved")
    return unknown


def is_too_deep(value: Any) -> bool:
    """Whether a decoded value is nested too deep to be encoded within another document.

    orjson decodes deeper values than it encodes. The limit on payloads is far lower
    (contract/payload_types.py), so only messages of other writers can exceed this one.
    """
    if type(value) is not dict and type(value) is not list:
        return False
    try:
        orjson.dumps([[[[[[[[value]]]]]]]])
    except orjson.JSONEncodeError:
        return True
    return False


def any_json(body: dict[str, Any], name: str) -> Any:
    """A value of any JSON type, such as a payload."""
    value = body.get(name)
    if is_too_deep(value):
        raise BadField(f"{name} is nested too deep")
    return value


def required(body: dict[str, Any], name: str, kind: type[T]) -> T:
    """A field of exactly this type: bool is not int, and integers must fit into 64 bits."""
    value = body.get(name)
    if type(value) is kind and (kind is not int or abs(body[name]) < _INT64_LIMIT):
        return value
    # reprlib: the value may be nested deeper than repr() can follow.
    raise BadField(f"{name} must be {kind.__name__}, found {reprlib.repr(value)}")


def optional(body: dict[str, Any], name: str, kind: type[T]) -> T | None:
    return None if body.get(name) is None else required(body, name, kind)


def non_empty_text(body: dict[str, Any], name: str) -> str:
    """A string that is not empty."""
    value = required(body, name, str)
    if not value:
        raise BadField(f"{name} cannot be empty")
    return value


def count(body: dict[str, Any], name: str, *, minimum: int = 0) -> int:
    value = body.get(name)
    if type(value) is int and minimum <= value < _INT64_LIMIT:
        return value
    found = required(body, name, int)
    raise BadField(f"{name} must be at least {minimum}, found {found}")


def milliseconds(body: dict[str, Any], name: str, *, minimum: int = 0) -> timedelta:
    value = count(body, name, minimum=minimum)
    if value > _MAX_MILLISECONDS:
        raise BadField(f"{name} must be at most {_MAX_MILLISECONDS}, found {value}")
    return value * MILLISECOND


def as_token(name: str, value: str) -> str:
    """Check a value that becomes part of a subject; a line break in it would inject a command."""
    try:
        return check_token(name, value)
    except InvalidToken as error:
        raise BadField(str(error)) from None


def token(body: dict[str, Any], name: str) -> str:
    return as_token(name, required(body, name, str))


def version(body: dict[str, Any]) -> int:
    """The payload's version, 1 if absent."""
    return count(body, "payloadVersion", minimum=1) if "payloadVersion" in body else 1


def app_version(body: dict[str, Any]) -> str | None:
    """The version of an application. A longer text than a service may have is refused."""
    found = optional(body, "appVersion", str)
    if found is not None and len(found) > MAX_LABEL_LENGTH:
        raise BadField(f"appVersion must have at most {MAX_LABEL_LENGTH} characters")
    return found


def secret_pointers(body: dict[str, Any], name: str) -> tuple[str, ...]:
    """JSON Pointers to the secret fields of a value."""
    found = optional(body, name, list) or ()
    if len(found) > _MAX_POINTERS or not all(isinstance(pointer, str) for pointer in found):
        raise BadField(f"{name} must be a list of at most {_MAX_POINTERS} strings")
    return tuple(found)


def objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries: list[Any] = required(body, name, list)
    if not all(isinstance(entry, dict) for entry in entries):
        raise BadField(f"{name} must be a list of objects")
    return entries


def timestamp(body: dict[str, Any], name: str) -> datetime:
    text = body.get(name)
    if type(text) is not str:
        text = required(body, name, str)
    try:
        at = datetime.fromisoformat(text.upper())
        if at.tzinfo is not None:
            return at if at.tzinfo is UTC else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadField(f"{name} must be an RFC 3339 time, found {text!r:.80}") from None
    raise BadField(f"{name} must include its offset from UTC, found {text!r:.80}")


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
