"""Everything the admin runtime raises on purpose.

AdminError
├── ConfigError             a setting makes no sense
├── ProjectionOutdated      the projection's file has another schema: rebuild it
├── ProjectionMissing       there is no projection to read, and this process makes none
├── ProjectionUnusable      the projection's file cannot be opened or is none
├── ProjectionUnavailable   the projection cannot be read right now: it is made again
│   └── ProjectionRebuilding  and this is how far that is
├── ProjectionTaken         another process projects into this file
├── PortTaken               the probes' port is in use
├── QuestionTooLong         a read would take too long: narrow it
├── JobKeepsMoving          a job got new events faster than one could be added
└── RequestFailed           the admin runtime refused a request; raised by its client
    ├── NotFound            there is no such job, or key
    ├── Invalid             the request, or the job's state, does not allow this
    ├── Denied              the caller may not do this
    └── Unexpected          the admin runtime met a mistake, or could not do it in time
        ├── LogFull         a stream takes no more messages: nothing was changed
        └── Busy            too many ask it: nothing was done, ask again in a moment
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


# How an admin runtime begins its refusal of a method that only newer ones have.
NO_METHOD: Final = "there is no method"


class AdminError(JobsError):
    """Base of every error raised on purpose."""


class ConfigError(AdminError):
    """A setting makes no sense; the message names it."""


class ProjectionOutdated(AdminError):
    def __init__(self, path: Path, found: str | None, expected: int) -> None:
        super().__init__(
            f"{path} has schema {found or 'unknown'}, this version needs {expected}: "
            "run `trellis-jobs projection rebuild`, or start the admin runtime, which does it"
        )
        self.path = path
        self.found = found


class ProjectionMissing(AdminError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"there is no projection at {path}: start `trellis-jobs admin serve --db {path}` "
            "first, which makes it; `--mode rpc-only` only answers from it"
        )
        self.path = path


class ProjectionUnusable(AdminError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} cannot be used as a projection: {why}; choose another --db")
        self.path = path


class ProjectionUnavailable(AdminError):
    """It is made again from the log, by whoever fills it."""


class ProjectionRebuilding(ProjectionUnavailable):
    """`done` of `total` messages of the log are taken in."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"the projection is being rebuilt: {done:,} of {total:,} messages")
        self.done = done
        self.total = total


class ProjectionTaken(AdminError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"another process projects into {path}: give this one a --db of its own, "
            "or start it with --mode rpc-only"
        )
        self.path = path


class PortTaken(AdminError):
    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"--health-port {port} cannot be opened on {host}: {why}")
        self.port = port


class QuestionTooLong(AdminError):
    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the projection did not answer this within {seconds:g} s, because the filter has too "
            "many jobs to look at: name a service and a type, or a shorter time"
        )


class JobKeepsMoving(AdminError):
    def __init__(self, job_id: str, seconds: float) -> None:
        super().__init__(
            f"job {job_id} got new events all the time, and for {seconds:g} s none could be added "
            "before the next one came; nothing was changed, ask again"
        )
        self.job_id = job_id


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong with a request; `path` leads to the field."""

    path: str
    message: str


class RequestFailed(AdminError):
    """`error_id` and `request_id` are in the log of the admin runtime that refused."""

    def __init__(self, message: str, *, error_id: str = "", request_id: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.error_id = error_id
        self.request_id = request_id


class NotFound(RequestFailed):
    """There is no such job, or key: it never was, or retention removed it."""


class Invalid(RequestFailed):
    """`expected` and `actual` are the states in which it is legal, and the one the job is in.

    `since` when, and `by` whom if somebody ended it. `raced`: it was in a legal state a moment ago.
    """

    issues: tuple[Issue, ...] = ()
    expected: tuple[str, ...] = ()
    actual: str | None = None
    since: datetime | None = None
    by: str | None = None
    raced: bool = False


class Denied(RequestFailed):
    """The caller may not do this."""


class Unexpected(RequestFailed):
    """Nobody's request was wrong; the message says what happened."""


class LogFull(Unexpected):
    """Nothing was changed: `stream` takes no more messages because of `limit`."""

    stream: str = ""
    limit: str = ""


class Busy(Unexpected):
    """Too many requests wait for an answer; nothing was done about this one."""
