"""All errors that the admin runtime and its client raise on purpose.

AdminError
├── ConfigError             a setting is invalid
├── ProjectionOutdated      the projection's file has another schema: rebuild it
├── ProjectionMissing       there is no projection to read, and this process does not create one
├── ProjectionUnusable      the projection's file cannot be opened, or is not a projection
├── ProjectionUnavailable   the projection cannot be read right now, because it is being recreated
│   └── ProjectionRebuilding  the same, with the progress of the rebuild
├── ProjectionLocked        another process writes this projection
├── PortUnavailable         a port to listen on cannot be opened
├── QueryTimeout            a read would take too long: use a narrower filter
├── QueueMissing            the server has no such queue
├── ContractMissing         the server has no contract of the queue
├── JobInvalid              a job cannot be created as requested
├── BundleInvalid           a file is not a bundle of a job, or is damaged
├── SchedulesUnavailable    the records of schedules cannot be read right now
├── JobContention           a job received new events faster than one could be appended
└── RequestFailed           the admin runtime refused a request; raised by its client
    ├── NotFound            there is no such job, key or queue
    ├── Invalid             the request is invalid, or the job's state does not allow it
    ├── Denied              the caller lacks the permission
    └── Unexpected          the admin runtime failed, or could not do it in time
        ├── LogFull         a stream accepts no more messages: nothing was changed
        └── Busy            too many requests at once: nothing was done, try again
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path


# An admin runtime's refusal of an unknown method begins so; clients recognise older runtimes by it.
NO_METHOD: Final = "there is no method"
# The path of the issue if the contract of a queue is missing or unusable.
CONTRACT_ISSUE: Final = "/type"


class AdminError(JobsError):
    """Base of all errors of the admin runtime."""


class ConfigError(AdminError):
    """A setting is invalid; the message names it."""


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
            "first, which creates it; `--mode rpc-only` only answers from it"
        )
        self.path = path


class ProjectionUnusable(AdminError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} cannot be used as a projection: {why}; choose another --db")
        self.path = path


class ProjectionUnavailable(AdminError):
    """The process that writes the projection is recreating it from the log."""


class ProjectionRebuilding(ProjectionUnavailable):
    """`done` of `total` messages of the log have been projected."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"the projection is being rebuilt: {done:,} of {total:,} messages")
        self.done = done
        self.total = total


class ProjectionLocked(AdminError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"another process writes the projection {path}: choose another --db for this one, "
            "or start it with --mode rpc-only"
        )
        self.path = path


class PortUnavailable(AdminError):
    def __init__(self, host: str, port: int, why: str, option: str = "--health-port") -> None:
        super().__init__(f"{option} {port} cannot be opened on {host}: {why}")
        self.port = port


class QueryTimeout(AdminError):
    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the query took longer than {seconds:g} s, because too many jobs match the filter: "
            "add a service and a type, or a shorter time range"
        )


class QueueMissing(AdminError):
    """`why` lists the queues that exist."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.why = f"no worker of it was ever started; queues: {', '.join(known) or 'none'}"
        super().__init__(f"there is no queue {name}: {self.why}")


class ContractMissing(AdminError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"the server has no contract of {name}: its workers are too old to publish it, or have "
            "no permission to"
        )
        self.name = name


class BundleInvalid(AdminError):
    """The message says what is wrong with the file."""


class SchedulesUnavailable(AdminError):
    def __init__(self, why: str) -> None:
        super().__init__(f"the records of schedules cannot be read: {why}")


class JobContention(AdminError):
    def __init__(self, job_id: str, seconds: float) -> None:
        super().__init__(
            f"job {job_id} received new events for {seconds:g} s, and each append was refused; "
            "nothing was changed, try again"
        )
        self.job_id = job_id


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem with a request; `path` is the JSON pointer of the field."""

    path: str
    message: str


class JobInvalid(AdminError):
    """`issues` name the fields of the request that are invalid."""

    def __init__(self, message: str, issues: Sequence[Issue]) -> None:
        super().__init__(message)
        self.issues = tuple(issues)

    @classmethod
    def at(cls, path: str, problem: str) -> JobInvalid:
        return cls(problem, [Issue(path, problem)])


class RequestFailed(AdminError):
    """`error_id` and `request_id` are also in the log of the admin runtime that refused."""

    def __init__(self, message: str, *, error_id: str = "", request_id: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.error_id = error_id
        self.request_id = request_id


class NotFound(RequestFailed):
    """There is no such job, key or queue: it never existed, or retention removed it."""


class Invalid(RequestFailed):
    """`expected` are the states in which the action is legal; `actual` is the job's state.

    `since` is when the job entered it, and `by` who ended the job, if a person did. `raced` is True
    if the job was in a legal state a moment ago.
    """

    issues: tuple[Issue, ...] = ()
    expected: tuple[str, ...] = ()
    actual: str | None = None
    since: datetime | None = None
    by: str | None = None
    raced: bool = False


class Denied(RequestFailed):
    """The caller lacks the permission."""


class Unexpected(RequestFailed):
    """The request was valid but failed; the message says why."""


class LogFull(Unexpected):
    """Nothing was changed: `stream` takes no more messages because of `limit`."""

    stream: str = ""
    limit: str = ""


class Busy(Unexpected):
    """Too many requests are waiting for an answer; this one was not processed."""
