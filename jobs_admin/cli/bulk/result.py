"""What became of each job that a command wanted to change: counted, told, and as an exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobs_admin.api.errors import Denied, Invalid, NotFound
from jobs_admin.cli.exit_codes import Exit, exit_of
from trellis_jobs.errors import JobsError
from trellis_jobs.model.identity import JobAddress


class Why(StrEnum):
    """`raced`: somebody was faster. `unclear`: no answer came, so it may have been done."""

    RACED = "raced"
    WRONG_STATE = "wrong-state"
    DENIED = "denied"
    INVALID = "invalid"
    NOT_FOUND = "not-found"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class NotDone:
    job: str | JobAddress
    why: Why
    message: str
    state: str | None = None

    @property
    def id(self) -> str:
        return self.job.job_id if isinstance(self.job, JobAddress) else self.job

    @property
    def reason(self) -> str:
        """In a word or two, the same for all jobs that it holds for."""
        if self.why is Why.WRONG_STATE and self.state is not None:
            return f"is {self.state}"
        return self.why.value.replace("-", " ")

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"id": self.id, "reason": self.why.value, "message": self.message}
        if isinstance(self.job, JobAddress):
            told |= {"service": self.job.service, "type": self.job.job_type}
        if self.state is not None:
            told["state"] = self.state
        return told


@dataclass(slots=True)
class Tally:
    """`asked`: for how many jobs; `stopped` says why some of them were not gone on to."""

    verb: str
    asked: int
    by_name: bool = False
    done: int = 0
    not_done: list[NotDone] = field(default_factory=list)
    stopped: str | None = None
    outage: JobsError | None = None

    @property
    def gone_through(self) -> int:
        return self.done + len(self.not_done)

    @property
    def exit(self) -> Exit:
        reasons = self.reasons
        if self.outage is not None:
            return exit_of(self.outage)
        if reasons[Why.UNCLEAR]:
            return Exit.UNREACHABLE
        if self.by_name and self.asked and reasons[Why.NOT_FOUND] == self.asked:
            return Exit.NOT_FOUND
        return Exit.REFUSED if self.not_done or self.stopped else Exit.OK

    @property
    def reasons(self) -> Counter[Why]:
        return Counter(each.why for each in self.not_done)

    def of(self, *reasons: Why) -> list[NotDone]:
        return [each for each in self.not_done if each.why in reasons]

    @property
    def refused(self) -> list[NotDone]:
        return self.of(Why.RACED, Why.WRONG_STATE, Why.DENIED, Why.INVALID)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "verb": self.verb,
            "asked": self.asked,
            "done": self.done,
            "refused": len(self.refused),
            "notFound": self.reasons[Why.NOT_FOUND],
            "unclear": self.reasons[Why.UNCLEAR],
            "refusals": [each.to_json() for each in self.not_done],
        }
        if self.stopped is not None:
            told["stopped"] = self.stopped
        return told


def refusal_of(job: str | JobAddress, error: JobsError) -> NotDone:
    """What an error in answer to a change says of the job."""
    message = str(error)
    match error:
        case NotFound():
            return NotDone(job, Why.NOT_FOUND, message)
        case Denied():
            return NotDone(job, Why.DENIED, message)
        case Invalid() if error.raced:
            return NotDone(job, Why.RACED, message, error.actual)
        case Invalid() if error.actual is not None:
            return NotDone(job, Why.WRONG_STATE, message, error.actual)
        case Invalid():
            return NotDone(job, Why.INVALID, message)
        case _:
            return NotDone(job, Why.UNCLEAR, message)
