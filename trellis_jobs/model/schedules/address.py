"""The address of a schedule, and the id of the job that one of its ticks creates."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Final

from trellis_jobs.model.identity import check_service, check_token, ulid, ulid_milliseconds
from trellis_jobs.model.values import Value

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_RANDOM_BYTES: Final = 10
_LATEST: Final = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // _MILLISECOND


class ScheduleAddress(Value, frozen=True):
    """The service, the queue and the name of a schedule."""

    service: str
    job_type: str
    schedule: str

    def __post_init__(self) -> None:
        check_service(self.service)
        check_token("job type", self.job_type)
        check_token("schedule", self.schedule)

    def __str__(self) -> str:
        return f"{self.service}/{self.job_type}/{self.schedule}"


def tick_job_id(address: ScheduleAddress, tick: datetime) -> str:
    """The id of the tick's job: a ULID that every process computes alike.

    So the log accepts one job per tick, no matter how many processes create it (design D29).
    """
    randomness = int.from_bytes(tick_digest(address, tick)[:_RANDOM_BYTES])
    return ulid((tick - EPOCH) // _MILLISECOND, randomness)


def tick_of_job(address: ScheduleAddress, job_id: str) -> datetime | None:
    """The tick for which the schedule created the job, if it is a whole number of milliseconds.

    Returns None for a job that someone triggered, or that the schedule did not create.
    """
    milliseconds = ulid_milliseconds(job_id)
    if milliseconds is None or milliseconds > _LATEST:
        return None
    tick = EPOCH + milliseconds * _MILLISECOND
    return tick if tick_job_id(address, tick) == job_id else None


def tick_fraction(address: ScheduleAddress, tick: datetime) -> tuple[int, int]:
    """A number that every process computes alike, and its bound: `0 <= number < bound`.

    It uses the bytes of the digest that the job id does not, so the two are independent.
    """
    rest = tick_digest(address, tick)[_RANDOM_BYTES:]
    return int.from_bytes(rest), 1 << (8 * len(rest))


def tick_digest(address: ScheduleAddress, tick: datetime) -> bytes:
    """A JSON list, so that no two addresses have the same text."""
    microseconds = (tick - EPOCH) // _MICROSECOND
    names = [address.service, address.job_type, address.schedule, microseconds]
    return hashlib.sha256(json.dumps(names, separators=(",", ":")).encode()).digest()
