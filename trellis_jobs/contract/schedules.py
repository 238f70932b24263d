"""Schedules as service authors declare them, and the definitions that they become.

The model of schedules is imported where there is a schedule: most services declare none, and start
sooner without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from trellis_jobs.contract.option_kinds import (
    Duration,
    check_whole_number,
    read_duration,
    require,
)
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import DeclarationError, KeyUnresolvable
from trellis_jobs.model.identity import check_token_argument
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, repr_with

if TYPE_CHECKING:
    from enum import StrEnum

    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.contract.payload_types import PayloadType
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.schedules.definition import ScheduleDefinition, Timing

E = TypeVar("E", bound="StrEnum")

_MAX_SUGGESTIONS: Final = 3


class ScheduleOptions(Value, frozen=True, kw_only=True):
    """The options that all schedules have."""

    payload: Any
    jitter: Duration = 0
    start: datetime | str | None = None
    end: datetime | str | None = None
    catch_up: Literal["skip", "once", "all"] = "once"
    max_catch_up: int = 100
    overlap: Literal["allow", "skip", "replace", "cancel-running"] = "allow"

    def __repr__(self) -> str:
        """Without the payload, whose own repr may show secrets."""
        return repr_with(self, payload=type(self.payload))


class Cron(ScheduleOptions, frozen=True):
    """Creates jobs at the times of a cron expression: `Cron("0 9 * * 1-5", payload=…)`.

    `expression` has 5 fields, or 6 with seconds first, or is an alias such as `@daily`. `tz` is the
    IANA name of a time zone. When clocks skip a time such as 2:30, its job is created at the moment
    of the change; when clocks repeat it, the job is created once. Expressions whose minute or hour
    begins with `*` match whatever clocks show.

    `payload` is the payload of every job. `jitter` delays each job by at most this many seconds;
    the delay of a tick is the same in all processes. It is at most the time between two ticks.
    There are no ticks before `start` and after `end`, which are aware datetimes, or texts such as
    `2027-01-01T09:00+01:00`.

    `catch_up` says what happens to ticks that were missed, such as while no worker ran: `skip`
    creates no jobs for them, `once` one job for the newest, `all` jobs for all, at most
    `max_catch_up`. `overlap` says what a tick does if the previous job of the schedule has not
    ended: `allow` creates the job beside it, `skip` creates none, `replace` cancels the previous
    job unless it runs, and `cancel-running` cancels it in any case.
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        _definition(self)


class Every(ScheduleOptions, frozen=True):
    """Creates jobs at regular intervals of at least one second: `Every(300, payload=…)`.

    `interval` is in seconds, or a timedelta. Ticks are counted from `start`, which is itself a
    tick, or else from 1970-01-01T00:00Z: `Every(300)` is every full five minutes. The other options
    are those of `Cron`.
    """

    interval: Duration

    def __post_init__(self) -> None:
        _definition(self)


Schedule: TypeAlias = Cron | Every


def resolve(declared: Schedule, payload: PayloadType[Any], version: int) -> ScheduleDefinition:
    """The definition of a schedule of a queue with this payload type.

    Raises DeclarationError if the payload does not match.
    """
    try:
        encoded = payload.to_json(declared.payload)
    except TypeMismatch as error:
        raise DeclarationError(f"its payload is not valid for the queue: {error}") from error
    return _definition(declared, encoded, version, payload.secrets)


def resolve_new(declared: Schedule, payload: PayloadType[Any], version: int) -> ScheduleDefinition:
    """Like `resolve`, for a schedule that someone makes at run time. It needs a suitable jitter."""
    definition = resolve(declared, payload, version)
    _check_jitter(definition)
    return definition


def resolve_declared(
    schedules: Mapping[str, Schedule],
    payload: PayloadType[Any],
    version: int,
    key_policy: KeyPolicy | None,
) -> dict[str, ScheduleDefinition]:
    """The schedules of a contract by name. Raises DeclarationError, which names the schedule."""
    found = {}
    for name, declared in schedules.items():
        try:
            definition = resolve(declared, payload, version)
            _check_secrets(definition)
            if key_policy is not None:
                key_policy.template.resolve(definition.payload)
        except (DeclarationError, KeyUnresolvable) as error:
            raise DeclarationError(f"schedule {name!r}: {error}") from error
        found[name] = definition
    return found


def read_schedules(option: str, given: Any) -> dict[str, Schedule]:
    """The argument of job(...), checked for callers without a type checker.

    The jitter is checked here and not for schedules of a manifest: operators must be able to read
    a contract that an older version published.
    """
    if not isinstance(given, Mapping):
        raise DeclarationError(f"{option} must be a dictionary of names, is {given!r}")
    for name, declared in given.items():
        check_token_argument("schedule", name)
        if not isinstance(declared, Cron | Every):
            raise DeclarationError(
                f"{option}[{name!r}] must be Cron(...) or Every(...), is {declared!r}"
            )
        try:
            _check_jitter(_definition(declared))
        except DeclarationError as error:
            raise DeclarationError(f"schedule {name!r}: {error}") from error
    return dict(given)


def _check_jitter(definition: ScheduleDefinition) -> None:
    from trellis_jobs.model.schedules.jitter import check_jitter  # noqa: PLC0415

    check_jitter(definition)


def _check_secrets(definition: ScheduleDefinition) -> None:
    """A manifest is shown to everyone, so no secret may be in it."""
    hidden = redacted(definition.payload, definition.secrets)
    require(
        hidden == definition.payload,
        "its payload has a secret, and contracts are shown: read the secret in the handler, or "
        "make the schedule at run time",
    )


def _definition(
    declared: Schedule, payload: Json = None, version: int = 1, secrets: tuple[str, ...] = ()
) -> ScheduleDefinition:
    from trellis_jobs.model.schedules.definition import (  # noqa: PLC0415
        CatchUp,
        Overlap,
        ScheduleDefinition,
    )

    check_whole_number("max_catch_up", declared.max_catch_up)
    return ScheduleDefinition(
        timing=_timing(declared),
        payload=payload,
        version=version,
        secrets=secrets,
        jitter=read_duration("jitter", declared.jitter),
        start=_read_time("start", declared.start),
        end=_read_time("end", declared.end),
        catch_up=_one_of(CatchUp, "catch_up", declared.catch_up),
        max_catch_up=declared.max_catch_up,
        overlap=_one_of(Overlap, "overlap", declared.overlap),
    )


def _timing(declared: Schedule) -> Timing:
    from trellis_jobs.model.schedules.definition import (  # noqa: PLC0415
        CronTiming,
        IntervalTiming,
    )

    if isinstance(declared, Every):
        return IntervalTiming(read_duration("the interval", declared.interval))
    if not isinstance(declared.expression, str):
        raise DeclarationError(
            f"a cron expression is text such as '0 9 * * *', this is {declared.expression!r}"
        )
    _check_zone(declared.tz)
    return CronTiming(" ".join(declared.expression.split()), declared.tz)


def _read_time(option: str, given: datetime | str | None) -> datetime | None:
    if given is None:
        return None
    try:
        time = datetime.fromisoformat(given) if isinstance(given, str) else given
        if time.utcoffset() is None:
            raise DeclarationError(
                f"{option} needs a time zone: write datetime(…, tzinfo=UTC), or a text with an "
                f"offset such as '2027-01-01T09:00+01:00'; it is {given!r}"
            )
        return time.astimezone(UTC)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(
            f"{option} must be a datetime or a text such as '2027-01-01T09:00+01:00', is "
            f"{given!r} ({error})"
        ) from error


def _check_zone(name: object) -> None:
    if not isinstance(name, str):
        raise DeclarationError(
            f"tz must be the name of a time zone, such as 'Europe/Berlin', is {name!r}"
        )
    from trellis_jobs.model.schedules.time_zone import load_zone  # noqa: PLC0415

    try:
        load_zone(name)
    except DeclarationError as error:
        close = _close_zones(name)
        if not close:
            raise
        raise DeclarationError(f"time zone {name!r} is not known: {close}?") from error


def _close_zones(name: str) -> str:
    """The names of time zones that look similar, for an error message."""
    # Imported here, because only this error needs them.
    import difflib  # noqa: PLC0415
    from zoneinfo import available_timezones  # noqa: PLC0415

    known = {zone.lower(): zone for zone in sorted(available_timezones())}
    wanted = name.strip().lower().replace(" ", "_")
    cities = [zone for zone in known if zone.rpartition("/")[2] == wanted]
    close = cities or difflib.get_close_matches(wanted, known, _MAX_SUGGESTIONS)
    return " or ".join(known[zone] for zone in close[:_MAX_SUGGESTIONS])


def _one_of(kind: type[E], option: str, value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(member.value) for member in kind)
        raise DeclarationError(f"{option} must be one of {known}, is {value!r}") from None
