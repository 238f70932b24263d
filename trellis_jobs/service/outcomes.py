"""What a queue's policy made of a request: `submit` returns one of these four."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from trellis_jobs.key_errors import FullKey

# A JobRef, or a SyncJobRef.
Ref = TypeVar("Ref")


@dataclass(frozen=True, slots=True)
class Accepted(Generic[Ref]):
    """The job is in the log and will be attempted."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Replaced(Generic[Ref]):
    """Accepted, in the place of the oldest job that waited for the key, which is skipped."""

    ref: Ref
    replaced_job_id: str


@dataclass(frozen=True, slots=True)
class Coalesced(Generic[Ref]):
    """No new job: `existing` waits for the key already, or runs."""

    existing: Ref
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(FullKey):
    """No new job, and why not."""
