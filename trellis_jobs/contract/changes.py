"""Compare two contracts and classify each change as an update or a migration.

After an update, every job that would have run before still runs. A migration may reject or skip
jobs, so an operator must check the outstanding jobs first. Each field of a queue has one rule: for
`payload` and `result` it is here, for the others in the table of queue options. A change of a field
without a rule is a migration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trellis_jobs.contract.change_rules import (
    ChangeClass,
    ChangeRule,
    Classification,
    migration,
    unknown,
    update,
)
from trellis_jobs.contract.queue_options import QUEUE_OPTIONS
from trellis_jobs.contract.schema_changes import narrowings

Manifest = Mapping[str, Any]

# In place of a queue's fields: why they are not known.
UNKNOWN_BECAUSE: Final = "untold"
# The fields of an entry that describe a type. Digest and secrets replace a schema if it is large.
TYPE_FIELDS: Final = frozenset({"schema", "digest", "secrets"})


@dataclass(frozen=True, slots=True)
class ContractChange:
    """A change of one field of a queue. `field` is empty if the queue was added or removed."""

    queue: str
    field: str
    old: Any
    new: Any
    change_class: ChangeClass
    why: str


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
            classified = unknown(was, now)
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
            classified = _rule_of(field)(before, after)
            yield ContractChange(
                queue, field, before, after, classified.change_class, classified.why
            )


def _rule_of(field: str) -> ChangeRule:
    group = field.partition(".")[0]
    return CHANGE_RULES.get(field) or CHANGE_RULES.get(f"{group}.*", unknown)


def _flat(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Flatten groups to names such as `keyConcurrency.maxActive` and `schedules.nightly`."""
    for name, value in entry.items():
        if name in _GROUPS and isinstance(value, Mapping):
            yield from ((f"{name}.{member}", inner) for member, inner in value.items())
        else:
            yield name, value


def _schema(what: str) -> ChangeRule:
    def classify(old: Any, new: Any) -> Classification:
        if unruled := _unclassified(old, new):
            return migration(f"the effect of changing {', '.join(unruled)} is not known")
        if any("digest" in (entry or {}) for entry in (old, new)):
            return migration(f"may reject an existing {what}: only a digest of its schema is known")
        found = narrowings(_schema_of(old), _schema_of(new))
        if not found:
            return update(f"every {what} that was valid before still is")
        shown = "; ".join(map(str, found[:_MAX_SHOWN])) + ("; …" if len(found) > _MAX_SHOWN else "")
        return migration(f"may reject an existing {what}: {shown}")

    return classify


def _schema_of(entry: Any) -> Mapping[str, Any]:
    schema = (entry or {}).get("schema", True)
    return schema if isinstance(schema, Mapping) else {} if schema else {"not": {}}


def _payload(old: Any, new: Any) -> Classification:
    """Versions take precedence over schemas: a payload that can be upgraded is accepted."""
    was, now = (old or {}).get("version", 1), (new or {}).get("version", 1)
    oldest, oldest_was = _oldest_readable(new), _oldest_readable(old)
    if now < was:
        return migration(f"jobs of version {was} wait until a worker supports that version")
    if oldest > was:
        return migration(f"there is no upgrade from version {was}, so its jobs fail")
    if oldest > oldest_was:
        return migration(f"payloads older than version {oldest} can no longer be read")
    if now > was and not _unclassified(old, new):
        return update(f"payloads of version {was} are upgraded to version {now}")
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


_MAX_SHOWN: Final = 3
_MANIFEST_FIELDS: Final = frozenset({"format", "service", "jobs"})
_PAYLOAD_FIELDS: Final = TYPE_FIELDS | {"version", "upgradesFrom"}
_GROUPS: Final = frozenset(
    option.field for option in QUEUE_OPTIONS if option.members or option.named
)
CHANGE_RULES: Final[Mapping[str, ChangeRule]] = {
    "payload": _payload,
    "result": _schema("result"),
    **{
        f"{option.field}.{member.field}": member.change
        for option in QUEUE_OPTIONS
        for member in option.members
    },
    **{
        f"{option.field}.*" if option.named else option.field: option.change
        for option in QUEUE_OPTIONS
        if option.field is not None and not option.members
    },
}
