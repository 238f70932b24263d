"""Turns the error envelope of a refused request into the exception that the client raises."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator

from jobs_admin.api.errors import (
    Busy,
    Denied,
    Invalid,
    Issue,
    LogFull,
    NotFound,
    RequestFailed,
    Unexpected,
)


def _none_if_invalid(value: Any, read: Any) -> Any:
    try:
        return read(value)
    except ValueError:
        return None


_OPTIONAL: Final = WrapValidator(_none_if_invalid)


class _Issue(BaseModel):
    path: str = ""
    message: str = ""


class _Context(BaseModel):
    requestId: str = ""  # noqa: N815 - as it is on the wire


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str = ""
    type: str
    message: str
    issues: list[_Issue] = []
    expected: list[str] = []
    actual: str | None = None
    since: Annotated[datetime | None, _OPTIONAL] = None
    by: Annotated[str | None, _OPTIONAL] = None
    raced: Annotated[bool | None, _OPTIONAL] = None
    stream: Annotated[str | None, _OPTIONAL] = None
    limit: Annotated[str | None, _OPTIONAL] = None
    context: _Context = _Context()


def error_from(data: bytes) -> RequestFailed:
    """Other runtimes' envelopes may lack every field except type and message."""
    try:
        envelope = _Envelope.model_validate_json(data)
    except ValidationError:
        return Unexpected(f"the request was refused with an unreadable error: {data[:200]!r}")
    make = _BY_TYPE.get(envelope.type, Unexpected)
    error = make(envelope.message, error_id=envelope.id, request_id=envelope.context.requestId)
    if isinstance(error, Invalid):
        error.issues = tuple(Issue(issue.path, issue.message) for issue in envelope.issues)
        error.expected, error.actual = tuple(envelope.expected), envelope.actual
        error.since, error.by, error.raced = envelope.since, envelope.by, bool(envelope.raced)
    elif isinstance(error, LogFull):
        error.stream, error.limit = envelope.stream or "", envelope.limit or ""
    return error


_BY_TYPE: dict[str, type[RequestFailed]] = {
    "NotFoundError": NotFound,
    "ValidationError": Invalid,
    "SchemaValidationError": Invalid,
    "AuthError": Denied,
    "StreamFullError": LogFull,
    "BusyError": Busy,
}
