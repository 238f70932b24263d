"""From the error envelope of a refused request to the error that the client raises."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from jobs_admin.errors import (
    Denied,
    Invalid,
    Issue,
    NotFound,
    RequestFailed,
    Unexpected,
)


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
    return error


_BY_TYPE: dict[str, type[RequestFailed]] = {
    "NotFoundError": NotFound,
    "ValidationError": Invalid,
    "SchemaValidationError": Invalid,
    "AuthError": Denied,
}
