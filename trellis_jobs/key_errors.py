"""What goes wrong with the key of a job: no room for it, or a state that cannot be changed."""

from __future__ import annotations

from dataclasses import dataclass

from trellis_jobs.errors import JobsError


@dataclass(frozen=True, slots=True, kw_only=True)
class FullKey:
    """A key without room. `reason`: active-limit, queue-depth or stale-blocked.

    `limit` is of those that run or of those that wait, as the reason says; `existing_job_id` is
    the first job that waits for the key, else the first that runs.
    """

    key: str
    reason: str
    active: int
    queued: int
    limit: int
    existing_job_id: str


class NotAdmitted(JobsError):
    """No new job was created, because its key has no room."""

    def __init__(self, full: FullKey, *, coalesced: bool = False) -> None:
        existing = full.existing_job_id
        then = (
            f"the queue's policy leaves the work to job {existing}, which submit() returns"
            if coalesced
            else f"job {existing} is there before it"
        )
        super().__init__(
            f"key {full.key!r} lets no new job in ({full.reason}, limit {full.limit}): "
            f"{full.active} run, {full.queued} wait; {then}"
        )
        self.full = full
        self.key = full.key
        self.reason = full.reason
        self.active = full.active
        self.queued = full.queued
        self.limit = full.limit
        self.existing_job_id = existing
        self.coalesced = coalesced


class KeyBusy(NotAdmitted):
    """As many jobs of the key run as may, and none may wait; or a stale one blocks it."""


class QueueFull(NotAdmitted):
    """As many jobs wait for the key as may."""


class KeyContention(JobsError):
    def __init__(self, key: str, attempts: int) -> None:
        super().__init__(f"key {key!r} was still contended after {attempts} attempts; try again")
        self.key = key


class KeyStateMalformed(JobsError):
    def __init__(self, key: str, subject: str, reason: str) -> None:
        super().__init__(
            f"the state of key {key!r} is not readable and was left as it is: {reason}; "
            f"it is the last message on {subject}"
        )
        self.key = key
        self.reason = reason
