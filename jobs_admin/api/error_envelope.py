"""What a request is refused with: the error envelope of the original runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.errors import Issue

if TYPE_CHECKING:
    from pydantic import ValidationError as PydanticError

    from trellis_jobs.infrastructure_errors import StreamFull

_MOST_ISSUES: Final = 10
_LONGEST_PART: Final = 100


class Fault(Exception):
    """A refusal that the caller is told, with the fields that its type declares."""

    type = "UnexpectedError"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class Busy(Fault):
    """Nothing was done about the request."""

    type = "BusyError"

    def __init__(self) -> None:
        super().__init__(
            "this admin runtime has as many requests to answer as it takes; nothing was done "
            "about this one: ask again in a moment"
        )


class Full(Fault):
    """Nothing was changed: the event that would have changed it does not fit into the log."""

    type = "StreamFullError"

    def __init__(self, full: StreamFull) -> None:
        super().__init__(str(full), stream=full.stream, limit=full.limit)


class NotFound(Fault):
    type = "NotFoundError"

    def __init__(self, job_id: str, *, resource: str = "Job", why: str = "") -> None:
        message = f"there is no {resource.lower()} {job_id}" + (f": {why}" if why else "")
        super().__init__(message, resource=resource, jobId=job_id)


class Invalid(Fault):
    """A request that cannot be served as it is; `expected` and `actual` where that helps."""

    type = "ValidationError"

    def __init__(self, message: str, issues: list[Issue], **fields: Any) -> None:
        told = [{"path": issue.path, "message": issue.message} for issue in issues]
        super().__init__(message, issues=told, **fields)

    @classmethod
    def of(cls, error: PydanticError) -> Invalid:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        issues = [
            Issue("/" + "/".join(str(part)[:_LONGEST_PART] for part in each["loc"]), each["msg"])
            for each in found[:_MOST_ISSUES]
        ]
        said = "; ".join(f"{issue.path}: {issue.message}" for issue in issues)
        return cls(f"the request is not valid: {said}", issues)
