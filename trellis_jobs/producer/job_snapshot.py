"""The state of a job at the time when it was read from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from trellis_jobs.contract.payload_types import PayloadType, TypeMismatch
from trellis_jobs.errors import ResultInvalid
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.notes import LogLine, Progress

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class JobSnapshot(Generic[R_co]):
    """What `get()` and `watch()` return.

    Secrets in `payload` and `result` are replaced by `[secret]`, unless the job was read with
    `reveal=True`. `job` has all details, including the earlier runs of a retried job.
    """

    __slots__ = ("_is_redacted", "_result_type", "job")

    def __init__(self, job: Job, result_type: PayloadType[R_co], *, is_redacted: bool) -> None:
        self.job = job
        self._result_type = result_type
        self._is_redacted = is_redacted

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def state(self) -> JobState:
        return self.job.state

    @property
    def is_over(self) -> bool:
        return self.job.is_over

    @property
    def payload(self) -> Json:
        """The payload as JSON, because an earlier version of the code may have written it."""
        return self.job.payload

    @property
    def result(self) -> R_co | None:
        """The result in its declared type. None until the job has completed.

        Raises ResultInvalid if the stored result does not fit that type, or if `[secret]` does not
        fit in place of one of its secrets (a secret number, say).
        """
        if self.job.state is not JobState.COMPLETED:
            return None
        hidden = self._is_redacted and bool(
            self._result_type.secrets or self.job.run.result_secrets
        )
        return read_result(self.id, self._result_type, self.job.result, redacted=hidden)

    @property
    def tries(self) -> int:
        return self.job.tries

    @property
    def max_tries(self) -> int:
        return self.job.max_tries

    @property
    def snoozes(self) -> int:
        """How often handlers have snoozed the job, since an operator retried it if one did."""
        return self.job.snoozes

    @property
    def snoozed_until(self) -> datetime | None:
        """When the job runs again. None unless it is snoozed now."""
        return self.job.run.snoozed_until

    @property
    def snooze_reason(self) -> str | None:
        """The reason of the newest snooze, also after the job has run again."""
        return self.job.run.snooze_reason

    @property
    def created_at(self) -> datetime:
        return self.job.created_at

    @property
    def updated_at(self) -> datetime:
        return self.job.updated_at

    @property
    def deadline(self) -> datetime | None:
        return self.job.deadline

    @property
    def run_at(self) -> datetime | None:
        """The time for which the job is or was scheduled. None if it was to run at once."""
        return self.job.run.run_at

    @property
    def next_attempt_at(self) -> datetime | None:
        """When a job in state `scheduled` or `retry` may run."""
        return self.job.status.next_attempt_at

    @property
    def progress(self) -> Progress | None:
        return self.job.progress

    @property
    def logs(self) -> tuple[LogLine, ...]:
        return self.job.logs

    @property
    def errors(self) -> tuple[JobError, ...]:
        return self.job.errors

    @property
    def last_error(self) -> JobError | None:
        return self.job.last_error

    @property
    def why(self) -> str | None:
        """A sentence: why the job ended or is snoozed, or its latest error."""
        return self.job.why

    @property
    def context(self) -> JobContext:
        return self.job.context

    def __repr__(self) -> str:
        address = self.job.address
        return f"JobSnapshot({address.service}/{address.job_type}/{self.id}, {self.state})"


def read_result(job_id: str, kind: PayloadType[R], stored: Json, *, redacted: bool = False) -> R:
    """Raises ResultInvalid. `redacted` is True if `[secret]` stands in place of secrets."""
    try:
        return kind.from_json(stored)
    except TypeMismatch as mismatch:
        raise ResultInvalid(job_id, str(mismatch), redacted=redacted) from mismatch
