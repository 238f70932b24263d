"""The result of a bulk change: counts, the jobs that were not changed, and the exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from jobs_admin.api.errors import Busy, Denied, Invalid, LogFull, NotFound
from jobs_admin.cli.exit_codes import Exit, exit_code_for
from trellis_jobs.errors import JobsError
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import LIVE, JobState


class NotDoneReason(StrEnum):
    """`raced`: another change came first. `unclear`: no reply came, so it may have been done."""

    RACED = "raced"
    WRONG_STATE = "wrong-state"
    DENIED = "denied"
    INVALID = "invalid"
    NOT_FOUND = "not-found"
    LOG_FULL = "log-full"
    BUSY = "busy"
    UNCLEAR = "unclear"


_REFUSALS: Final = (
    NotDoneReason.RACED,
    NotDoneReason.WRONG_STATE,
    NotDoneReason.DENIED,
    NotDoneReason.INVALID,
    NotDoneReason.LOG_FULL,
    NotDoneReason.BUSY,
)
_ENDED: Final = frozenset(state.value for state in JobState if state not in LIVE)


@dataclass(frozen=True, slots=True)
class NotDone:
    job: str | JobAddress
    reason: NotDoneReason
    message: str
    state: str | None = None

    @property
    def id(self) -> str:
        return self.job.job_id if isinstance(self.job, JobAddress) else self.job

    @property
    def words(self) -> str:
        """The reason in a few words, without the job's id, so that equal reasons can be grouped."""
        match self.reason:
            case NotDoneReason.WRONG_STATE if self.state is not None:
                return f"already {self.state}" if self.state in _ENDED else f"still {self.state}"
            case NotDoneReason.RACED:
                return "another change came first"
            case NotDoneReason.DENIED:
                return "not permitted"
            case NotDoneReason.INVALID:
                return "invalid request"
            case other:
                return other.value.replace("-", " ")

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": self.id,
            "reason": self.reason.value,
            "message": self.message,
        }
        if isinstance(self.job, JobAddress):
            body |= {"service": self.job.service, "type": self.job.job_type}
        if self.state is not None:
            body["state"] = self.state
        return body


@dataclass(slots=True)
class BulkResult:
    """`requested` is the number of jobs; `stopped` says why some of them were not processed."""

    verb: str
    requested: int
    by_name: bool = False
    done: int = 0
    not_done: list[NotDone] = field(default_factory=list)
    stopped: str | None = None
    outage: JobsError | None = None

    @property
    def processed(self) -> int:
        return self.done + len(self.not_done)

    @property
    def exit(self) -> Exit:
        reasons = self.reasons
        if self.outage is not None:
            return exit_code_for(self.outage)
        if reasons[NotDoneReason.UNCLEAR]:
            return Exit.UNREACHABLE
        if self.by_name and self.requested and reasons[NotDoneReason.NOT_FOUND] == self.requested:
            return Exit.NOT_FOUND
        return Exit.REFUSED if self.not_done or self.stopped else Exit.OK

    @property
    def reasons(self) -> Counter[NotDoneReason]:
        return Counter(each.reason for each in self.not_done)

    def with_reason(self, *reasons: NotDoneReason) -> list[NotDone]:
        return [each for each in self.not_done if each.reason in reasons]

    @property
    def refused(self) -> list[NotDone]:
        return self.with_reason(*_REFUSALS)

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "verb": self.verb,
            "asked": self.requested,
            "done": self.done,
            "refused": len(self.refused),
            "notFound": self.reasons[NotDoneReason.NOT_FOUND],
            "unclear": self.reasons[NotDoneReason.UNCLEAR],
            "refusals": [each.to_json() for each in self.not_done],
        }
        if self.stopped is not None:
            body["stopped"] = self.stopped
        return body


def not_done(job: str | JobAddress, error: JobsError) -> NotDone:
    """Classify the error with which the admin runtime refused to change a job."""
    message = str(error)
    match error:
        case NotFound():
            return NotDone(job, NotDoneReason.NOT_FOUND, message)
        case Denied():
            return NotDone(job, NotDoneReason.DENIED, message)
        case Invalid() if error.raced:
            return NotDone(job, NotDoneReason.RACED, message, error.actual)
        case Invalid() if error.actual is not None:
            return NotDone(job, NotDoneReason.WRONG_STATE, message, error.actual)
        case Invalid():
            return NotDone(job, NotDoneReason.INVALID, message)
        case LogFull():
            return NotDone(job, NotDoneReason.LOG_FULL, message)
        case Busy():
            return NotDone(job, NotDoneReason.BUSY, message)
        case _:
            return NotDone(job, NotDoneReason.UNCLEAR, message)
