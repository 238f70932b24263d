"""The key policy of a queue: how many jobs of one key run or wait, and what happens to more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from trellis_jobs.contract.option_kinds import (
    Duration,
    check_count,
    check_whole_number,
    read_duration,
    require,
)
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.keys.backlog import WhenDue, WhenFull
from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.state import KEYS_BUCKET
from trellis_jobs.model.keys.template import KeyTemplate

E = TypeVar("E", bound=StrEnum)

MAX_HEARTBEAT_INTERVAL: Final = timedelta(seconds=30)
_RENEWALS_PER_ACK_WAIT: Final = 3
# When a worker dies, its job must be redelivered and reuse its slot before the lease expires.
_ACK_WAITS_PER_LEASE: Final = 2
# A handler is cancelled when its lease was not renewed for the lease time less one interval. With
# fewer than three renewals per lease, that would cancel every handler.
_RENEWALS_PER_LEASE: Final = 3
# All running and waiting jobs of a key are in one value of the bucket, which is one message.
MAX_ENTRIES: Final = 1_000


@dataclass(frozen=True, slots=True)
class KeyConcurrency:
    """`key` has constants and JSON Pointers into the payload, such as `/customer/id`."""

    key: Sequence[str]
    max_active: int = 1
    heartbeat_interval: Duration | None = None
    heartbeat_ttl: Duration | None = None
    stale_policy: str | StalePolicy = StalePolicy.FAIL_STALE


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many jobs of a key may wait, and what happens to further ones."""

    max_queued_per_key: int = 0
    when_full: str | WhenFull = WhenFull.REJECT
    when_due: str | WhenDue = WhenDue.WAIT


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """KeyConcurrency and QueueDepth, checked, with defaults derived from the queue's ack_wait."""

    template: KeyTemplate
    max_active: int
    heartbeat_interval: timedelta
    heartbeat_ttl: timedelta
    stale_policy: StalePolicy
    max_queued: int
    when_full: WhenFull
    when_due: WhenDue = WhenDue.WAIT
    bucket: str = KEYS_BUCKET


def resolve(
    key: KeyConcurrency | None, depth: QueueDepth | None, ack_wait: timedelta
) -> KeyPolicy | None:
    if key is None:
        require(depth is None, "queue=QueueDepth(...) needs key=KeyConcurrency(...) beside it")
        return None
    depth = QueueDepth() if depth is None else depth
    _check_types(key, depth)
    _check_counts(key.max_active, depth.max_queued_per_key)
    interval, ttl = _lease(key, ack_wait)
    return KeyPolicy(
        KeyTemplate(tuple(key.key)),
        key.max_active,
        interval,
        ttl,
        _one_of(StalePolicy, "stale_policy", key.stale_policy),
        depth.max_queued_per_key,
        _one_of(WhenFull, "when_full", depth.when_full),
        _one_of(WhenDue, "when_due", depth.when_due),
    )


def _check_types(key: object, depth: object) -> None:
    """Check the types, for callers without a type checker."""
    if not isinstance(key, KeyConcurrency):
        raise DeclarationError(f"key must be KeyConcurrency([...]), found {key!r}")
    if not isinstance(depth, QueueDepth):
        raise DeclarationError(f"queue must be QueueDepth(...), found {depth!r}")
    if isinstance(key.key, str) or not isinstance(key.key, Sequence):
        raise DeclarationError(f"key must be a list of segments, found {key.key!r}")


def _check_counts(max_active: int, max_queued: int) -> None:
    check_count("max_active", max_active)
    check_whole_number("max_queued_per_key", max_queued)
    require(max_queued >= 0, f"max_queued_per_key cannot be negative, is {max_queued}")
    for option, value in (("max_active", max_active), ("max_queued_per_key", max_queued)):
        require(
            value <= MAX_ENTRIES,
            f"{option} can be at most {MAX_ENTRIES}, is {value}: "
            "all jobs of a key are stored in one value",
        )


def _lease(key: KeyConcurrency, ack_wait: timedelta) -> tuple[timedelta, timedelta]:
    """The interval between renewals, and the lease time."""
    interval = _explicit("heartbeat_interval", key.heartbeat_interval) or min(
        MAX_HEARTBEAT_INTERVAL, ack_wait / _RENEWALS_PER_ACK_WAIT
    )
    twice, thrice = _ACK_WAITS_PER_LEASE * ack_wait, _RENEWALS_PER_LEASE * interval
    ttl = _explicit("heartbeat_ttl", key.heartbeat_ttl) or max(twice, thrice)
    require(
        ttl >= thrice,
        f"heartbeat_ttl ({ttl}) must be at least three times heartbeat_interval ({interval})",
    )
    require(ttl >= twice, f"heartbeat_ttl ({ttl}) must be at least twice ack_wait ({ack_wait})")
    return interval, ttl


def _explicit(option: str, duration: Duration | None) -> timedelta | None:
    if duration is None:
        return None
    given = read_duration(option, duration)
    require(given > timedelta(), f"{option} must be positive, is {given}")
    return given


def _one_of(kind: type[E], option: str, value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(member.value) for member in kind)
        raise DeclarationError(f"{option} must be one of {known}, found {value!r}") from None
