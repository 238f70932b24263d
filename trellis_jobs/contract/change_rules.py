"""Rules that classify the change of one field of a queue as an update or a migration.

The table of queue options names a rule for each option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ChangeClass(StrEnum):
    UPDATE = "update"
    MIGRATION = "migration"


@dataclass(frozen=True, slots=True)
class Classification:
    change_class: ChangeClass
    why: str


# Takes the old and the new JSON of the field, each None if the manifest does not have it.
ChangeRule = Callable[[Any, Any], Classification]


def update(why: str) -> Classification:
    return Classification(ChangeClass.UPDATE, why)


def migration(why: str) -> Classification:
    return Classification(ChangeClass.MIGRATION, why)


def unknown(_old: Any, _new: Any) -> Classification:
    return migration("the effect of changing this field is not known")


def always(classification: Classification) -> ChangeRule:
    return lambda _old, _new: classification


def may_grow(*, more: str, less: str) -> ChangeRule:
    """A number that may grow without rejecting jobs, but not shrink."""

    def classify(old: Any, new: Any) -> Classification:
        grows = old is not None and new is not None and new > old
        return update(more) if grows else migration(less)

    return classify


def limit(*, looser: str, tighter: str) -> ChangeRule:
    """An optional limit; no limit is the loosest."""

    def classify(old: Any, new: Any) -> Classification:
        loosens = new is None or (old is not None and new > old)
        return update(looser) if loosens else migration(tighter)

    return classify


def switch(*, on: str, off: str) -> ChangeRule:
    """A switch: turning it on is an update, turning it off a migration."""
    return lambda _old, new: update(on) if new else migration(off)


def renew(_old: Any, new: Any) -> Classification:
    if new is None:
        return update("handlers need not call heartbeat")
    return migration("handlers that do not call heartbeat are stopped")


def backoff(old: Any, new: Any) -> Classification:
    was, now = list(old or [0]), list(new or [0])
    tries = range(max(len(was), len(now)))
    shorter = [n + 1 for n in tries if _delay(now, n) < _delay(was, n)]
    if shorter:
        return migration(f"the delay after try {shorter[0]} is shorter than before")
    return update("no delay is shorter")


def _delay(delays: list[int], number: int) -> int:
    return delays[min(number, len(delays) - 1)]


def when_full(old: Any, new: Any) -> Classification:
    if old == "reject" and new is not None:
        return update("jobs that were rejected are now coalesced or replace others")
    if new == "reject":
        return migration("jobs that were coalesced or replaced others are rejected")
    return migration("other jobs than before run or are skipped")


def renewal(old: Any, new: Any) -> Classification:
    if old is not None and new is not None and new < old:
        return update("slots are renewed more often")
    return migration("a handler is stopped sooner when the server does not answer")
