"""Compare two contracts and classify each change as an update or a migration.

After an update, every job that would have run before still runs. A migration may reject or skip
jobs, so an operator must check the outstanding jobs first. Each field of a queue has one rule (seed
003, "Queue change classification"); a change of a field without a rule is a migration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trellis_jobs.contract.schema_changes import narrowings

Manifest = Mapping[str, Any]

# In place of a queue's fields: why they are not known.
UNKNOWN_BECAUSE: Final = "untold"
# The fields of an entry that describe a type. Digest and secrets replace a schema if it is large.
TYPE_FIELDS: Final = frozenset({"schema", "digest", "secrets"})


class ChangeClass(StrEnum):
    UPDATE = "update"
    MIGRATION = "migration"


@dataclass(frozen=True, slots=True)
class Classification:
    change_class: ChangeClass
    why: str


@dataclass(frozen=True, slots=True)
class ContractChange:
    """A change of one field of a queue. `field` is empty if the queue was added or removed."""

    queue: str
    field: str
    old: Any
    new: Any
    change_class: ChangeClass
    why: str


Classifier = Callable[[Any, Any], Classification]


def changes(old: Manifest, new: Manifest) -> list[ContractChange]:
    """The changes between two manifests of a service, queue by queue."""
    if old["service"] != new["service"]:
        why = "it is a different service: its jobs, keys and consumers have other names"
        services = (old["service"], new["service"])
        return [ContractChange("", "service", *services, ChangeClass.MIGRATION, why)]
    was, now = old["jobs"], new["jobs"]
    return [*_manifest_changes(old, new)] + [
        change
        for queue in sorted(was.keys() | now.keys())
        for change in _queue_changes(queue, was.get(queue), now.get(queue))
    ]


def _manifest_changes(old: Manifest, new: Manifest) -> Iterator[ContractChange]:
    """Changes of fields that a later version added beside the queues."""
    for field in sorted((old.keys() | new.keys()) - _MANIFEST_FIELDS):
        was, now = old.get(field), new.get(field)
        if was != now:
            classified = _unknown(was, now)
            yield ContractChange("", field, was, now, classified.change_class, classified.why)


def is_migration(found: Sequence[ContractChange]) -> bool:
    return any(change.change_class is ChangeClass.MIGRATION for change in found)


def _queue_changes(queue: str, old: Any, new: Any) -> Iterator[ContractChange]:
    if old is None:
        yield ContractChange(queue, "", None, new, ChangeClass.UPDATE, "the queue is new")
        return
    if new is None:
        why = "the queue is removed: no worker will run the jobs that wait in it"
        yield ContractChange(queue, "", old, None, ChangeClass.MIGRATION, why)
        return
    if UNKNOWN_BECAUSE in old:
        yield ContractChange(queue, "", None, new, ChangeClass.MIGRATION, old[UNKNOWN_BECAUSE])
        return
    was, now = dict(_flat(old)), dict(_flat(new))
    for field in sorted(was.keys() | now.keys()):
        before, after = was.get(field), now.get(field)
        if before != after:
            classified = CLASSIFIERS.get(field, _unknown)(before, after)
            yield ContractChange(
                queue, field, before, after, classified.change_class, classified.why
            )


def _flat(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Flatten grouped fields to names such as `keyConcurrency.maxActive`, which have rules."""
    for name, value in entry.items():
        if name in _GROUPS and isinstance(value, Mapping):
            yield from ((f"{name}.{member}", inner) for member, inner in value.items())
        else:
            yield name, value


def _update(why: str) -> Classification:
    return Classification(ChangeClass.UPDATE, why)


def _migration(why: str) -> Classification:
    return Classification(ChangeClass.MIGRATION, why)


def _unknown(_old: Any, _new: Any) -> Classification:
    return _migration("the effect of changing this field is not known")


def _may_grow(*, more: str, less: str) -> Classifier:
    """A number that may grow without rejecting jobs, but not shrink."""

    def classify(old: Any, new: Any) -> Classification:
        grows = old is not None and new is not None and new > old
        return _update(more) if grows else _migration(less)

    return classify


def _limit(*, looser: str, tighter: str) -> Classifier:
    """An optional limit; no limit is the loosest."""

    def classify(old: Any, new: Any) -> Classification:
        loosens = new is None or (old is not None and new > old)
        return _update(looser) if loosens else _migration(tighter)

    return classify


def _switch(*, on: str, off: str) -> Classifier:
    """A switch: turning it on is an update, turning it off a migration."""
    return lambda _old, new: _update(on) if new else _migration(off)


def _always(classification: Classification) -> Classifier:
    return lambda _old, _new: classification


def _schema(what: str) -> Classifier:
    def classify(old: Any, new: Any) -> Classification:
        if unknown := _unclassified(old, new):
            return _migration(f"the effect of changing {', '.join(unknown)} is not known")
        if any("digest" in (entry or {}) for entry in (old, new)):
            return _migration(
                f"may reject an existing {what}: only a digest of its schema is known"
            )
        found = narrowings(_schema_of(old), _schema_of(new))
        if not found:
            return _update(f"every {what} that was valid before still is")
        shown = "; ".join(map(str, found[:_MAX_SHOWN])) + ("; …" if len(found) > _MAX_SHOWN else "")
        return _migration(f"may reject an existing {what}: {shown}")

    return classify


def _schema_of(entry: Any) -> Mapping[str, Any]:
    schema = (entry or {}).get("schema", True)
    return schema if isinstance(schema, Mapping) else {} if schema else {"not": {}}


def _payload(old: Any, new: Any) -> Classification:
    """Versions take precedence over schemas: a payload that can be upgraded is accepted."""
    was, now = (old or {}).get("version", 1), (new or {}).get("version", 1)
    oldest, oldest_was = _oldest_readable(new), _oldest_readable(old)
    if now < was:
        return _migration(f"jobs of version {was} wait until a worker supports that version")
    if oldest > was:
        return _migration(f"there is no upgrade from version {was}, so its jobs fail")
    if oldest > oldest_was:
        return _migration(f"payloads older than version {oldest} can no longer be read")
    if now > was and not _unclassified(old, new):
        return _update(f"payloads of version {was} are upgraded to version {now}")
    return _schema("payload")(old, new)


def _oldest_readable(entry: Any) -> int:
    fields = entry or {}
    return int(fields.get("upgradesFrom", fields.get("version", 1)))


def _unclassified(old: Any, new: Any) -> list[str]:
    was, now = old or {}, new or {}
    return sorted(
        word
        for word in (was.keys() | now.keys()) - _PAYLOAD_FIELDS
        if was.get(word) != now.get(word)
    )


def _backoff(old: Any, new: Any) -> Classification:
    was, now = list(old or [0]), list(new or [0])
    tries = range(max(len(was), len(now)))
    shorter = [n + 1 for n in tries if _delay(now, n) < _delay(was, n)]
    if shorter:
        return _migration(f"the delay after try {shorter[0]} is shorter than before")
    return _update("no delay is shorter")


def _delay(delays: list[int], number: int) -> int:
    return delays[min(number, len(delays) - 1)]


def _when_full(old: Any, new: Any) -> Classification:
    if old == "reject" and new is not None:
        return _update("jobs that were rejected are now coalesced or replace others")
    if new == "reject":
        return _migration("jobs that were coalesced or replaced others are rejected")
    return _migration("other jobs than before run or are skipped")


def _renewal(old: Any, new: Any) -> Classification:
    if old is not None and new is not None and new < old:
        return _update("slots are renewed more often")
    return _migration("a handler is stopped sooner when the server does not answer")


_MAX_SHOWN: Final = 3
_MANIFEST_FIELDS: Final = frozenset({"format", "service", "jobs"})
_PAYLOAD_FIELDS: Final = TYPE_FIELDS | {"version", "upgradesFrom"}
_GROUPS: Final = frozenset({"keyConcurrency", "queue"})
_KEY_CHANGE: Final = _always(
    _migration("other jobs than before share a key and wait for each other")
)
CLASSIFIERS: Final[Mapping[str, Classifier]] = {
    "payload": _payload,
    "result": _schema("result"),
    "maxDeliver": _may_grow(more="jobs get more tries", less="jobs die after fewer tries"),
    "backoffMs": _backoff,
    "ackWaitMs": _may_grow(
        more="a dead worker is detected later", less="a slow worker may be considered dead"
    ),
    "defaultDeadlineMs": _limit(
        looser="jobs have more time", tighter="jobs may expire that would have run"
    ),
    "timeoutMs": _limit(
        looser="attempts have more time",
        tighter="attempts may be stopped that would have succeeded",
    ),
    "deliveryLimit": _limit(
        looser="the server delivers a job more often before it gives up",
        tighter="jobs may die after fewer deliveries",
    ),
    "concurrency": _always(_update("only the number of jobs that run at once changes")),
    "progress": _switch(on="progress is recorded", off="progress is no longer recorded"),
    "logs": _switch(on="log lines are recorded", off="log lines are no longer recorded"),
    "dlq": _switch(
        on="jobs without tries left are kept as dead",
        off="jobs without tries left fail, and are not in the dead letter queue",
    ),
    "shared": _switch(
        on="workers read whole histories", off="events of other runtimes count as guarded"
    ),
    "keyConcurrency.key": _KEY_CHANGE,
    "keyConcurrency.maxActive": _may_grow(
        more="more jobs of a key run at once", less="fewer jobs of a key run at once"
    ),
    "keyConcurrency.heartbeatIntervalMs": _renewal,
    "keyConcurrency.heartbeatTtlMs": _may_grow(
        more="a dead worker keeps its key for longer", less="a slow worker may lose its key"
    ),
    "keyConcurrency.stalePolicy": _always(
        _migration("what happens when a worker that holds a key dies changes")
    ),
    "queue.maxQueuedPerKey": _may_grow(
        more="more jobs may wait for a key", less="jobs may be rejected that could have waited"
    ),
    "queue.whenFull": _when_full,
    "docs": _always(_update("only documentation changes")),
}
