"""What a new contract changes: each change an update, or a migration, and why.

An update refuses and skips nothing that would have run before. A migration may: it needs somebody
who has looked at the jobs that are on their way. One rule per field of a queue (seed 003, "Queue
change classification"); a field without a rule is a migration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trellis_jobs.contract.schema_changes import narrowings

Manifest = Mapping[str, Any]

# Instead of a queue's fields, why they are not known.
UNTOLD: Final = "untold"
# What an entry says of a type: its schema, or of one that was too large what must be known.
OF_A_TYPE: Final = frozenset({"schema", "digest", "secrets"})


class Weight(StrEnum):
    UPDATE = "update"
    MIGRATION = "migration"


@dataclass(frozen=True, slots=True)
class Judgement:
    weight: Weight
    why: str


@dataclass(frozen=True, slots=True)
class ContractChange:
    """Of one field of one queue; `field` is empty when the whole queue came or went."""

    queue: str
    field: str
    old: Any
    new: Any
    weight: Weight
    why: str


Judge = Callable[[Any, Any], Judgement]


def changes(old: Manifest, new: Manifest) -> list[ContractChange]:
    """Of two manifests of one service, queue by queue."""
    if old["service"] != new["service"]:
        why = "it is another service: its jobs, its keys and its consumers have other names"
        services = (old["service"], new["service"])
        return [ContractChange("", "service", *services, Weight.MIGRATION, why)]
    was, now = old["jobs"], new["jobs"]
    return [*_of_the_rest(old, new)] + [
        change
        for queue in sorted(was.keys() | now.keys())
        for change in _of_queue(queue, was.get(queue), now.get(queue))
    ]


def _of_the_rest(old: Manifest, new: Manifest) -> Iterator[ContractChange]:
    """What a later version says beside the queues."""
    for field in sorted((old.keys() | new.keys()) - _OF_A_MANIFEST):
        was, now = old.get(field), new.get(field)
        if was != now:
            judged = _unknown(was, now)
            yield ContractChange("", field, was, now, judged.weight, judged.why)


def is_migration(found: Sequence[ContractChange]) -> bool:
    return any(change.weight is Weight.MIGRATION for change in found)


def _of_queue(queue: str, old: Any, new: Any) -> Iterator[ContractChange]:
    if old is None:
        yield ContractChange(queue, "", None, new, Weight.UPDATE, "the queue is new")
        return
    if new is None:
        why = "the queue is gone: jobs that wait in it have nobody who runs them"
        yield ContractChange(queue, "", old, None, Weight.MIGRATION, why)
        return
    if UNTOLD in old:
        yield ContractChange(queue, "", None, new, Weight.MIGRATION, old[UNTOLD])
        return
    was, now = dict(_flat(old)), dict(_flat(new))
    for field in sorted(was.keys() | now.keys()):
        before, after = was.get(field), now.get(field)
        if before != after:
            judged = JUDGES.get(field, _unknown)(before, after)
            yield ContractChange(queue, field, before, after, judged.weight, judged.why)


def _flat(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """`keyConcurrency.maxActive`: the fields that have a rule each."""
    for name, value in entry.items():
        if name in _GROUPS and isinstance(value, Mapping):
            yield from ((f"{name}.{member}", inner) for member, inner in value.items())
        else:
            yield name, value


def _update(why: str) -> Judgement:
    return Judgement(Weight.UPDATE, why)


def _migration(why: str) -> Judgement:
    return Judgement(Weight.MIGRATION, why)


def _unknown(_old: Any, _new: Any) -> Judgement:
    return _migration("nobody has decided what a change of this field does")


def _growing(*, more: str, less: str) -> Judge:
    """A number: more of it refuses nothing, less may."""

    def judge(old: Any, new: Any) -> Judgement:
        grows = old is not None and new is not None and new > old
        return _update(more) if grows else _migration(less)

    return judge


def _limit(*, looser: str, tighter: str) -> Judge:
    """A bound that may be absent: none at all is the loosest."""

    def judge(old: Any, new: Any) -> Judgement:
        loosens = new is None or (old is not None and new > old)
        return _update(looser) if loosens else _migration(tighter)

    return judge


def _switch(*, on: str, off: str) -> Judge:
    """Turning it on only adds; turning it off takes something away."""
    return lambda _old, new: _update(on) if new else _migration(off)


def _always(judgement: Judgement) -> Judge:
    return lambda _old, _new: judgement


def _schema(what: str) -> Judge:
    def judge(old: Any, new: Any) -> Judgement:
        if unknown := _unjudged(old, new):
            return _migration(f"nobody has decided what a change of {', '.join(unknown)} does")
        if any("digest" in (entry or {}) for entry in (old, new)):
            return _migration(f"may refuse a {what} that exists: only a digest of it is known")
        found = narrowings(_schema_of(old), _schema_of(new))
        if not found:
            return _update(f"everything that was a {what} still is")
        told = "; ".join(map(str, found[:_SHOWN])) + ("; …" if len(found) > _SHOWN else "")
        return _migration(f"may refuse a {what} that exists: {told}")

    return judge


def _schema_of(entry: Any) -> Mapping[str, Any]:
    schema = (entry or {}).get("schema", True)
    return schema if isinstance(schema, Mapping) else {} if schema else {"not": {}}


def _payload(old: Any, new: Any) -> Judgement:
    """Its version decides: what can be upgraded fits, whatever the schemas say."""
    was, now = (old or {}).get("version", 1), (new or {}).get("version", 1)
    oldest, oldest_was = _oldest_read(new), _oldest_read(old)
    if now < was:
        return _migration(f"jobs of version {was} are put back, and wait for code that knows it")
    if oldest > was:
        return _migration(f"nothing upgrades the payloads of version {was}, so their jobs fail")
    if oldest > oldest_was:
        return _migration(f"payloads older than version {oldest} cannot be read any more")
    if now > was and not _unjudged(old, new):
        return _update(f"payloads of version {was} are upgraded to version {now}")
    return _schema("payload")(old, new)


def _oldest_read(entry: Any) -> int:
    told = entry or {}
    return int(told.get("upgradesFrom", told.get("version", 1)))


def _unjudged(old: Any, new: Any) -> list[str]:
    was, now = old or {}, new or {}
    return sorted(
        word for word in (was.keys() | now.keys()) - _OF_A_PAYLOAD if was.get(word) != now.get(word)
    )


def _backoff(old: Any, new: Any) -> Judgement:
    was, now = list(old or [0]), list(new or [0])
    tries = range(max(len(was), len(now)))
    shorter = [n + 1 for n in tries if _delay(now, n) < _delay(was, n)]
    if shorter:
        return _migration(f"the wait after try {shorter[0]} is shorter than jobs were promised")
    return _update("no wait is shorter")


def _delay(delays: list[int], number: int) -> int:
    return delays[min(number, len(delays) - 1)]


def _when_full(old: Any, new: Any) -> Judgement:
    if old == "reject" and new is not None:
        return _update("what was refused is now taken in, one way or another")
    if new == "reject":
        return _migration("work that was taken in before is refused")
    return _migration("other jobs than before run, or are skipped")


def _renewal(old: Any, new: Any) -> Judgement:
    if old is not None and new is not None and new < old:
        return _update("slots are renewed more often")
    return _migration("a handler is stopped after a shorter silence of the server")


_SHOWN: Final = 3
_OF_A_MANIFEST: Final = frozenset({"format", "service", "jobs"})
_OF_A_PAYLOAD: Final = OF_A_TYPE | {"version", "upgradesFrom"}
_GROUPS: Final = frozenset({"keyConcurrency", "queue"})
_KEYED: Final = _always(_migration("jobs that would have run side by side wait, or the other way"))
JUDGES: Final[Mapping[str, Judge]] = {
    "payload": _payload,
    "result": _schema("result"),
    "maxDeliver": _growing(more="jobs get more tries", less="jobs die earlier than they would"),
    "backoffMs": _backoff,
    "ackWaitMs": _growing(
        more="a dead worker is noticed later", less="an attempt may be taken for lost that is not"
    ),
    "defaultDeadlineMs": _limit(
        looser="jobs have more time", tighter="jobs expire that would have run"
    ),
    "timeoutMs": _limit(
        looser="attempts have more time", tighter="attempts are stopped that would have ended"
    ),
    "deliveryLimit": _limit(
        looser="more deliveries before the server gives up",
        tighter="jobs die of deliveries that would have been tried",
    ),
    "concurrency": _always(_update("how many run at once changes, not which")),
    "progress": _switch(on="progress is written", off="progress that people watch is gone"),
    "logs": _switch(on="log lines are written", off="log lines that people read are gone"),
    "dlq": _switch(
        on="jobs out of tries are kept as dead",
        off="jobs out of tries fail for good, and nobody can replay them",
    ),
    "shared": _switch(
        on="whole histories are read", off="events of other runtimes are taken as guarded"
    ),
    "keyConcurrency.key": _KEYED,
    "keyConcurrency.maxActive": _growing(
        more="more of a key run at once", less="jobs of a key wait that would have run"
    ),
    "keyConcurrency.heartbeatIntervalMs": _renewal,
    "keyConcurrency.heartbeatTtlMs": _growing(
        more="a dead holder keeps its key for longer", less="a slow holder may lose its key"
    ),
    "keyConcurrency.stalePolicy": _always(
        _migration("what happens to a job whose holder is gone changes")
    ),
    "queue.maxQueuedPerKey": _growing(
        more="more may wait for a key", less="work that could have waited is refused"
    ),
    "queue.whenFull": _when_full,
    "docs": _always(_update("words only")),
}
