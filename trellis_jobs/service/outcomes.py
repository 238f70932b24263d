"""The results of `submit`: one of these four, depending on the queue's policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from trellis_jobs.errors import FullKey

# A JobRef, or a SyncJobRef.
Ref = TypeVar("Ref")


@dataclass(frozen=True, slots=True)
class Accepted(Generic[Ref]):
    """The job was created and will run."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Replaced(Generic[Ref]):
    """The job was created in place of the oldest job waiting for the key, which is skipped."""

    ref: Ref
    replaced_job_id: str


@dataclass(frozen=True, slots=True)
class Coalesced(Generic[Ref]):
    """No job was created, because `existing` already waits for the key or runs."""

    existing: Ref
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(FullKey):
    """No job was created. The fields have the reason."""
