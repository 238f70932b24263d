"""Errors about the key of a job: it has no room, or its state cannot be changed."""

from __future__ import annotations

from dataclasses import dataclass

from trellis_jobs.errors.base import JobsError


@dataclass(frozen=True, slots=True, kw_only=True)
class FullKey:
    """A key without room. `reason`: active-limit, queue-depth or stale-blocked.

    `limit` is the limit that the reason names. `existing_job_id` is the first waiting job of the
    key, or its first running job if none waits.
    """

    key: str
    reason: str
    active: int
    queued: int
    limit: int
    existing_job_id: str


class NotAdmitted(JobsError):
    """No job was created, because its key has no room."""

    def __init__(self, full: FullKey, *, coalesced: bool = False) -> None:
        existing = full.existing_job_id
        then = (
            f"the queue coalesces it with job {existing}, which submit() returns"
            if coalesced
            else f"job {existing} is ahead of it"
        )
        super().__init__(
            f"key {full.key!r} has no room for a new job ({full.reason}, limit {full.limit}): "
            f"{full.active} running, {full.queued} waiting; {then}"
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
    """All slots of the key are taken and no job may wait, or a stale job blocks the key."""


class QueueFull(NotAdmitted):
    """The maximum number of jobs already waits for the key."""


class KeyContention(JobsError):
    def __init__(self, key: str, attempts: int) -> None:
        super().__init__(
            f"key {key!r} was changed by other processes in each of {attempts} attempts; try again"
        )
        self.key = key


class KeyStateMalformed(JobsError):
    def __init__(self, key: str, subject: str, reason: str) -> None:
        super().__init__(
            f"cannot read the state of key {key!r}: {reason}; it was not changed, and is the last "
            f"message on {subject}"
        )
        self.key = key
        self.reason = reason
