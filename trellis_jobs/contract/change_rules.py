"""Rules that classify the change of one field of a queue as an update or a migration.

The table of queue options names a rule for each option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


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


def may_grow(*, more: str, less: str, default: int | None = None) -> ChangeRule:
    """A number that may grow without rejecting jobs, but not shrink.

    `default` is its value in a manifest without the field, if it is left out then.
    """

    def classify(old: Any, new: Any) -> Classification:
        old, new = default if old is None else old, default if new is None else new
        grows = old is not None and new is not None and new >= old
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


def when_due(_old: Any, new: Any) -> Classification:
    if new == "when-full":
        return migration("delayed jobs may be skipped that would have waited for their key")
    return update("delayed jobs wait for a full key")


def renewal(old: Any, new: Any) -> Classification:
    if old is not None and new is not None and new < old:
        return update("slots are renewed more often")
    return migration("a handler is stopped sooner when the server does not answer")


def schedule(old: Any, new: Any) -> Classification:
    """Each of these is what happens from the deploy on."""
    if old is None:
        return update("the schedule is new: it creates jobs from its first tick after the deploy")
    if new is None:
        return migration("the schedule is removed: its jobs are no longer created")
    changed = {field for field in old.keys() | new.keys() if old.get(field) != new.get(field)}
    if changed - _SCHEDULE_EFFECTS.keys():
        return unknown(old, new)
    if "overlap" in changed and _cancels_more(old["overlap"], new["overlap"]):
        return migration(f"with overlap {new['overlap']}, a tick may cancel the job before it")
    effects = dict.fromkeys(_SCHEDULE_EFFECTS[field] for field in sorted(changed))
    return update("; ".join(effects))


def _cancels_more(old: str, new: str) -> bool:
    by_severity = ("replace", "cancel-running")
    return new in by_severity and (
        old not in by_severity or by_severity.index(old) < by_severity.index(new)
    )


_OTHER_TICKS: Final = "its next tick is the first of the new timing after the deploy"
_OTHER_CATCH_UP: Final = "missed ticks are caught up by the new policy"
_SCHEDULE_EFFECTS: Final = {
    "cron": _OTHER_TICKS,
    "timeZone": _OTHER_TICKS,
    "everyMs": _OTHER_TICKS,
    "start": _OTHER_TICKS,
    "end": _OTHER_TICKS,
    "payload": "jobs that it creates after the deploy have the new payload",
    "jitterMs": "its jobs are created with other delays",
    "catchUp": _OTHER_CATCH_UP,
    "maxCatchUp": _OTHER_CATCH_UP,
    "overlap": "ticks treat a previous job that has not ended by the new policy",
}
