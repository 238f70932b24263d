"""The errors that an RPC is refused with, in the error envelope of the original runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.errors import Issue

if TYPE_CHECKING:
    from pydantic import ValidationError as PydanticError

    from trellis_jobs.errors import StreamFull

_MAX_ISSUES: Final = 10
_MAX_PATH_PART: Final = 100


class Fault(Exception):
    """A refusal that is sent to the caller, with the fields that its type declares."""

    type = "UnexpectedError"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class Busy(Fault):
    """The request was not processed."""

    type = "BusyError"

    def __init__(self) -> None:
        super().__init__(
            "the admin runtime has too many requests at once; this one was not processed: "
            "try again in a moment"
        )


class Full(Fault):
    """Nothing was changed, because the log has no space for the event."""

    type = "StreamFullError"

    def __init__(self, full: StreamFull) -> None:
        super().__init__(str(full), stream=full.stream, limit=full.limit)


class NotFound(Fault):
    type = "NotFoundError"

    def __init__(self, job_id: str, *, resource: str = "Job", why: str = "") -> None:
        message = f"there is no {resource.lower()} {job_id}" + (f": {why}" if why else "")
        super().__init__(message, resource=resource, jobId=job_id)


class Invalid(Fault):
    """The request cannot be processed as it is; some carry `expected` and `actual`."""

    type = "ValidationError"

    def __init__(self, message: str, issues: list[Issue], **fields: Any) -> None:
        fields["issues"] = [{"path": issue.path, "message": issue.message} for issue in issues]
        super().__init__(message, **fields)

    @classmethod
    def of(cls, error: PydanticError) -> Invalid:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        issues = [
            Issue("/" + "/".join(str(part)[:_MAX_PATH_PART] for part in each["loc"]), each["msg"])
            for each in found[:_MAX_ISSUES]
        ]
        problems = "; ".join(f"{issue.path}: {issue.message}" for issue in issues)
        return cls(f"the request is not valid: {problems}", issues)
