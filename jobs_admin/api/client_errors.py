"""From the error envelope of a refused request to the error that the client raises."""

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


def _or_nothing(value: Any, read: Any) -> Any:
    try:
        return read(value)
    except ValueError:
        return None


_IF_IT_IS_ONE: Final = WrapValidator(_or_nothing)


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
    since: Annotated[datetime | None, _IF_IT_IS_ONE] = None
    by: Annotated[str | None, _IF_IT_IS_ONE] = None
    raced: Annotated[bool | None, _IF_IT_IS_ONE] = None
    stream: Annotated[str | None, _IF_IT_IS_ONE] = None
    limit: Annotated[str | None, _IF_IT_IS_ONE] = None
    context: _Context = _Context()


def refusal(data: bytes) -> RequestFailed:
    """What another runtime answers may differ in all but type and message."""
    try:
        told = _Envelope.model_validate_json(data)
    except ValidationError:
        return Unexpected(f"the request was refused, and not said why: {data[:200]!r}")
    make = _BY_TYPE.get(told.type, Unexpected)
    error = make(told.message, error_id=told.id, request_id=told.context.requestId)
    if isinstance(error, Invalid):
        error.issues = tuple(Issue(issue.path, issue.message) for issue in told.issues)
        error.expected, error.actual = tuple(told.expected), told.actual
        error.since, error.by, error.raced = told.since, told.by, bool(told.raced)
    elif isinstance(error, LogFull):
        error.stream, error.limit = told.stream or "", told.limit or ""
    return error


_BY_TYPE: dict[str, type[RequestFailed]] = {
    "NotFoundError": NotFound,
    "ValidationError": Invalid,
    "SchemaValidationError": Invalid,
    "AuthError": Denied,
    "StreamFullError": LogFull,
    "BusyError": Busy,
}
