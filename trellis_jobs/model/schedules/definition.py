"""What a schedule does: its timing, the payload of its jobs, and its policies."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import field

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.durations import LONGEST, format_duration
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.schedules.address import EPOCH
from trellis_jobs.model.schedules.cron import check_expression
from trellis_jobs.model.schedules.time_zone import load_zone
from trellis_jobs.model.values import Value, repr_with

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.model.json_values import Json

# Times of schedules are between these, so that date arithmetic cannot overflow.
EARLIEST: Final = EPOCH
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
SHORTEST_INTERVAL: Final = timedelta(seconds=1)
MAX_JITTER: Final = timedelta(days=1)
DEFAULT_MAX_CATCH_UP: Final = 100
# All jobs of one decision are in one record, which is one message.
MAX_MAX_CATCH_UP: Final = 1_000
_MILLISECOND: Final = timedelta(milliseconds=1)


class CatchUp(StrEnum):
    """What happens to ticks that no process could fire in time, such as during an outage.

    SKIP creates no jobs for them, ONCE one job for the newest, ALL a job for each, up to a limit.
    """

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class Overlap(StrEnum):
    """What a tick does if the previous job of the schedule has not ended.

    ALLOW creates the job anyway. SKIP creates none. REPLACE cancels the previous job unless it
    runs at the moment, CANCEL_RUNNING cancels it in any case; then both create the new job.
    """

    ALLOW = "allow"
    SKIP = "skip"
    REPLACE = "replace"
    CANCEL_RUNNING = "cancel-running"


class CronTiming(Value, frozen=True):
    """`zone` is the IANA name of a time zone, in which the expression is read."""

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        check_expression(self.expression)
        load_zone(self.zone)

    def __str__(self) -> str:
        return f"{self.expression} ({self.zone})"


class IntervalTiming(Value, frozen=True):
    """A tick every so often, counted from the schedule's anchor."""

    every: timedelta

    def __post_init__(self) -> None:
        _require(
            self.every >= SHORTEST_INTERVAL, f"an interval is at least 1 s, this is {self.every}"
        )
        _require(self.every <= LONGEST, f"an interval is at most 100 years, this is {self.every}")
        _check_milliseconds("an interval", self.every)

    def __str__(self) -> str:
        return f"every {format_duration(self.every)}"


Timing: TypeAlias = CronTiming | IntervalTiming


class ScheduleDefinition(Value, frozen=True, kw_only=True):
    """All that is needed to compute the ticks of a schedule and to create their jobs.

    `version` is the payload's version, and `secrets` are JSON Pointers to its secret fields.
    Ticks are from `start` to `end`, both included. Each job is created at its tick plus a delay of
    at most `jitter`. `max_catch_up` limits CatchUp.ALL. `unknown` holds fields of later versions,
    which are preserved. Raises DeclarationError if it is invalid, so the ticks of every definition
    that exists can be computed.
    """

    timing: Timing
    payload: Json
    version: int = 1
    secrets: tuple[str, ...] = ()
    jitter: timedelta = timedelta()
    start: datetime | None = None
    end: datetime | None = None
    catch_up: CatchUp = CatchUp.ONCE
    max_catch_up: int = DEFAULT_MAX_CATCH_UP
    overlap: Overlap = Overlap.ALLOW
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_period(self.start, self.end)
        _check_jitter(self.jitter, self.timing)
        _require(
            1 <= self.max_catch_up <= MAX_MAX_CATCH_UP,
            f"max_catch_up is between 1 and {MAX_MAX_CATCH_UP}, this is {self.max_catch_up}",
        )

    @property
    def anchor(self) -> datetime:
        """The moment from which intervals are counted, the same in all processes."""
        return self.start or EPOCH

    @property
    def when(self) -> tuple[Timing, datetime | None, datetime | None]:
        """Definitions that are equal in this have the same ticks."""
        return self.timing, self.start, self.end

    @property
    def fingerprint(self) -> str:
        """Equal definitions have equal fingerprints, and others have other ones.

        Stricter than `==`, which takes 1, 1.0 and True for the same payload.
        """
        fields = [
            *_timing_fields(self.timing),
            self.payload,
            self.version,
            list(self.secrets),
            self.jitter // _MILLISECOND,
            None if self.start is None else self.start.isoformat(),
            None if self.end is None else self.end.isoformat(),
            self.catch_up.value,
            self.max_catch_up,
            self.overlap.value,
        ]
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __repr__(self) -> str:
        payload = redacted(self.payload, self.secrets)
        return repr_with(self, payload=payload, unknown=sorted(self.unknown))


def _timing_fields(timing: Timing) -> tuple[str | int, ...]:
    if isinstance(timing, CronTiming):
        return timing.expression, timing.zone
    return "every", timing.every // _MILLISECOND


def _check_period(start: datetime | None, end: datetime | None) -> None:
    for name, time in (("start", start), ("end", end)):
        if time is None:
            continue
        _require(time.tzinfo is UTC, f"{name} must be in UTC, is {time}")
        _require(EARLIEST <= time <= LATEST, f"{name} must be between 1970 and 9000, is {time}")
    if start is not None and end is not None:
        _require(start <= end, f"end ({end}) is before start ({start})")


def _check_jitter(jitter: timedelta, timing: Timing) -> None:
    _require(timedelta() <= jitter <= MAX_JITTER, f"jitter is between 0 and 24 h, this is {jitter}")
    _check_milliseconds("jitter", jitter)
    if isinstance(timing, IntervalTiming):
        _require(
            jitter <= timing.every,
            f"jitter ({jitter}) is at most the interval ({timing.every})",
        )


def _check_milliseconds(what: str, duration: timedelta) -> None:
    _require(
        not duration % _MILLISECOND,
        f"{what} is a whole number of milliseconds, this is {duration}",
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise DeclarationError(message)
