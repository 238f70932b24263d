"""What a queue's policy made of a request: `submit` returns one of these four."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from trellis_jobs.key_errors import FullKey

if TYPE_CHECKING:
    from trellis_jobs.producer.job_ref import JobRef

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Accepted(Generic[R]):
    """The job is in the log and will be attempted."""

    ref: JobRef[R]


@dataclass(frozen=True, slots=True)
class Replaced(Generic[R]):
    """Accepted, in the place of the oldest job that waited for the key, which is skipped."""

    ref: JobRef[R]
    replaced_job_id: str


@dataclass(frozen=True, slots=True)
class Coalesced(Generic[R]):
    """No new job: `existing` waits for the key already, or runs."""

    existing: JobRef[R]
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(FullKey):
    """No new job, and why not."""
