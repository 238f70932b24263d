"""The options of `create(…)` that replace options of the queue for one job."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict

from trellis_jobs.contract.option_kinds import COUNT, Duration, Kind, duration_at_least, require
from trellis_jobs.errors import DeclarationError, JobOptionInvalid
from trellis_jobs.model.durations import LONGEST, format_duration
from trellis_jobs.model.try_limits import Renewal, TryLimits
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType

# Readers in every language can represent it exactly.
_MAX_TRIES: Final = 2**53 - 1
_TIMEOUT: Final = duration_at_least(timedelta(milliseconds=1))
_VISIBILITY: Final = duration_at_least(timedelta(milliseconds=100))
_NO_LIMITS: Final = TryLimits()


class TryOptions(TypedDict, total=False):
    """`max_tries`: tries before the job is dead. `timeout`: the time limit of one try.

    `visibility`: how long its handler may go without calling heartbeat(), on a queue that declares
    renew="manual". Durations are seconds or a timedelta. None means the option of the queue.
    """

    max_tries: int | None
    timeout: Duration | None
    visibility: Duration | None


class TrySettings(Value, frozen=True):
    """The checked options. None means that of the queue."""

    max_tries: int | None = None
    limits: TryLimits | None = None


OF_THE_QUEUE: Final = TrySettings()


def read_try_options(
    queue: JobType[Any, Any],
    *,
    max_tries: int | None = None,
    timeout: Duration | None = None,
    visibility: Duration | None = None,
) -> TrySettings:
    """Raises JobOptionInvalid."""
    try:
        if max_tries is not None:
            COUNT.check("max_tries", max_tries)
            require(max_tries <= _MAX_TRIES, f"max_tries must be at most {_MAX_TRIES}")
        require(
            visibility is None or queue.renew is Renewal.MANUAL,
            'visibility needs a queue that declares renew="manual": here the worker renews the '
            "lease for as long as the handler runs, and only timeout limits it",
        )
        limits = TryLimits(
            _duration("timeout", timeout, _TIMEOUT),
            _duration("visibility", visibility, _VISIBILITY),
        )
    except DeclarationError as error:
        raise JobOptionInvalid(queue.name, str(error)) from None
    return TrySettings(max_tries, None if limits == _NO_LIMITS else limits)


def _duration(option: str, given: Duration | None, kind: Kind) -> timedelta | None:
    if given is None:
        return None
    duration: timedelta = kind.read(option, given)
    kind.check(option, duration)
    require(duration <= LONGEST, f"{option} must be at most {format_duration(LONGEST)}")
    return duration
