"""The kinds of option values: how each is read from code, checked, and written to a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.try_limits import Renewal

if TYPE_CHECKING:
    from enum import StrEnum

Duration = float | timedelta

_MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_MILLISECONDS: Final = timedelta.max // _MILLISECOND

Milliseconds = Annotated[int, Field(ge=0, le=_MAX_MILLISECONDS)]
Count = Annotated[int, Field(ge=1)]


def _unchanged(value: Any) -> Any:
    return value


def _as_given(_option: str, given: Any) -> Any:
    return given


def _any_value(_option: str, _value: Any) -> None:
    """For kinds that have nothing to check, or whose check depends on other options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`read` converts an argument of job(...) to the value that JobType holds.

    `read` and `check` take the name of the option and raise a DeclarationError that names it.
    `json_type` is the type of the field in the manifest.
    """

    json_type: Any = Any
    read: Callable[[str, Any], Any] = _as_given
    check: Callable[[str, Any], None] = _any_value
    to_json: Callable[[Any], Any] = _unchanged
    from_json: Callable[[Any], Any] = _unchanged


def optional(kind: Kind) -> Kind:
    """The same kind, or None."""

    def check(option: str, value: Any) -> None:
        if value is not None:
            kind.check(option, value)

    return Kind(
        json_type=kind.json_type | None,
        read=lambda option, given: None if given is None else kind.read(option, given),
        check=check,
        to_json=lambda value: None if value is None else kind.to_json(value),
        from_json=lambda value: None if value is None else kind.from_json(value),
    )


def count_unless(default: int) -> Kind:
    """A count that the manifest has only if it is not the default."""
    return Kind(
        json_type=Count | None,
        check=check_count,
        to_json=lambda value: None if value == default else value,
        from_json=lambda value: default if value is None else value,
    )


def one_of(choices: type[StrEnum]) -> Kind:
    # mypy accepts only literals between the brackets of Literal.
    literal: Any = Literal
    return Kind(
        json_type=literal[tuple(choice.value for choice in choices)],
        to_json=lambda choice: choice.value,
        from_json=choices,
    )


def require(condition: bool, message: str) -> None:
    if not condition:
        raise DeclarationError(message)


def check_count(option: str, value: Any) -> None:
    check_whole_number(option, value)
    require(value >= 1, f"{option} must be at least 1, is {value}")


def check_whole_number(option: str, value: Any) -> None:
    # Not isinstance, because True is an int.
    require(type(value) is int, f"{option} must be a whole number, is {value!r}")


def read_duration(option: str, given: Any) -> timedelta:
    """Seconds or a timedelta. Raises DeclarationError for everything else."""
    if isinstance(given, timedelta):
        return given
    try:
        if isinstance(given, bool):
            raise TypeError("a boolean is not a duration")
        return timedelta(seconds=given)
    except (TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(
            f"{option} must be seconds or a timedelta, is {given!r} ({error})"
        ) from error


def _check_positive(option: str, value: timedelta) -> None:
    require(value > timedelta(), f"{option} must be more than 0 seconds, is {value}")


def duration_at_least(shortest: timedelta) -> Kind:
    seconds = f"{shortest.total_seconds():g} s"
    return _duration(
        lambda option, value: require(
            value >= shortest, f"{option} must be at least {seconds}, is {value}"
        )
    )


def _duration(check: Callable[[str, timedelta], None]) -> Kind:
    return Kind(
        json_type=Milliseconds,
        read=read_duration,
        check=check,
        to_json=_to_milliseconds,
        from_json=_from_milliseconds,
    )


def _to_milliseconds(duration: timedelta) -> int:
    return round(duration / _MILLISECOND)


def _from_milliseconds(milliseconds: int) -> timedelta:
    return milliseconds * _MILLISECOND


def _read_durations(option: str, given: Any) -> tuple[timedelta, ...]:
    return tuple(read_duration(option, each) for each in read_list(option, given))


def _check_durations(option: str, value: tuple[timedelta, ...]) -> None:
    require(all(each >= timedelta() for each in value), f"{option} cannot be negative")


def read_list(option: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DeclarationError(f"{option} must be a list, is {given!r}")
    return tuple(given)


def _check_exceptions(option: str, value: tuple[Any, ...]) -> None:
    require(
        all(isinstance(each, type) and issubclass(each, BaseException) for each in value),
        f"{option} must contain exception classes, is {value!r}",
    )


def _read_renewal(option: str, given: Any) -> Renewal:
    try:
        return Renewal(given)
    except ValueError:
        known = " or ".join(repr(each.value) for each in Renewal)
        raise DeclarationError(f"{option} must be {known}, is {given!r}") from None


ANY: Final = Kind()
COUNT: Final = Kind(json_type=Count, check=check_count)
DURATION: Final = _duration(_check_positive)
DURATIONS: Final = Kind(
    json_type=list[Milliseconds],
    read=_read_durations,
    check=_check_durations,
    to_json=lambda value: [_to_milliseconds(each) for each in value],
    from_json=lambda value: tuple(_from_milliseconds(each) for each in value),
)
EXCEPTIONS: Final = Kind(read=read_list, check=_check_exceptions)
SWITCH: Final = Kind(json_type=bool, to_json=bool)
# A switch that the manifest has only if it is on.
FLAG: Final = Kind(json_type=bool | None, to_json=lambda value: bool(value) or None, from_json=bool)
# The manifest has it only if it is not the default.
RENEWAL: Final = Kind(
    json_type=Literal["manual"] | None,
    read=_read_renewal,
    to_json=lambda renewal: None if renewal is Renewal.AUTOMATIC else renewal.value,
    from_json=lambda value: Renewal(value or Renewal.AUTOMATIC),
)
