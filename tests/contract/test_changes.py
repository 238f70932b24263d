"""Every field of a queue, changed both ways: an update, or a migration, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from trellis_jobs import Cron, Jobs, KeyConcurrency, QueueDepth, job
from trellis_jobs.contract.change_rules import ChangeClass
from trellis_jobs.contract.changes import CHANGE_RULES, changes, is_migration
from trellis_jobs.contract.manifest import to_manifest

UPDATE, MIGRATION = ChangeClass.UPDATE, ChangeClass.MIGRATION


class Order(BaseModel):
    number: int
    note: str = ""


class ShopJobs(Jobs, service="shop"):
    ship = job(Order, int)
    everything = job(
        Order,
        int,
        timeout=60,
        deadline=600,
        delivery_limit=20,
        shared=True,
        max_snoozes=50,
        renew="manual",
        key=KeyConcurrency(["/number"]),
        queue=QueueDepth(max_queued_per_key=5),
        schedules={"nightly": Cron("0 2 * * *", payload=Order(number=1))},
    )


MANIFEST: Final = to_manifest(ShopJobs.contract)
ENTRY: Final[dict[str, Any]] = MANIFEST["jobs"]["everything"]


def one_queue(entry: dict[str, Any] | None) -> dict[str, Any]:
    return {**MANIFEST, "jobs": {} if entry is None else {"ship": entry}}


def with_field(field: str, value: Any) -> dict[str, Any]:
    group, dot, member = field.partition(".")
    if not dot:
        changed = {**ENTRY, field: value}
        return {name: kept for name, kept in changed.items() if kept is not None}
    changed = {**ENTRY[group], member: value}
    return {**ENTRY, group: {name: kept for name, kept in changed.items() if kept is not None}}


TEXT: Final[dict[str, Any]] = {"schema": {"type": "string"}}
NUMBER: Final[dict[str, Any]] = {"schema": {"type": "number"}}
NIGHTLY: Final[dict[str, Any]] = ENTRY["schedules"]["nightly"]
VERSION_2: Final[dict[str, Any]] = {"version": 2, "upgradesFrom": 1}
CASES: Final[list[tuple[str, Any, Any, ChangeClass]]] = [
    ("maxDeliver", 5, 6, UPDATE),
    ("maxDeliver", 5, 4, MIGRATION),
    ("maxSnoozes", None, 2000, UPDATE),
    ("maxSnoozes", 100, None, UPDATE),
    ("maxSnoozes", None, 100, MIGRATION),
    ("maxSnoozes", 2000, None, MIGRATION),
    ("maxSnoozes", 100, 50, MIGRATION),
    ("backoffMs", [1000], [1000, 5000], UPDATE),
    ("backoffMs", [1000, 5000], [2000, 5000], UPDATE),
    ("backoffMs", [1000, 5000], [1000], MIGRATION),
    ("backoffMs", [1000, 5000], [500, 9000], MIGRATION),
    ("ackWaitMs", 30_000, 60_000, UPDATE),
    ("ackWaitMs", 60_000, 30_000, MIGRATION),
    ("renew", None, "manual", MIGRATION),
    ("renew", "manual", None, UPDATE),
    ("defaultDeadlineMs", 60_000, 90_000, UPDATE),
    ("defaultDeadlineMs", 60_000, None, UPDATE),
    ("defaultDeadlineMs", None, 60_000, MIGRATION),
    ("defaultDeadlineMs", 90_000, 60_000, MIGRATION),
    ("timeoutMs", 60_000, None, UPDATE),
    ("timeoutMs", 60_000, 90_000, UPDATE),
    ("timeoutMs", None, 60_000, MIGRATION),
    ("timeoutMs", 90_000, 60_000, MIGRATION),
    ("deliveryLimit", 10, 20, UPDATE),
    ("deliveryLimit", 10, None, UPDATE),
    ("deliveryLimit", None, 10, MIGRATION),
    ("deliveryLimit", 20, 10, MIGRATION),
    ("concurrency", 1, 4, UPDATE),
    ("concurrency", 4, 1, UPDATE),
    ("progress", False, True, UPDATE),
    ("progress", True, False, MIGRATION),
    ("logs", False, True, UPDATE),
    ("logs", True, False, MIGRATION),
    ("dlq", False, True, UPDATE),
    ("dlq", True, False, MIGRATION),
    ("shared", None, True, UPDATE),
    ("shared", True, None, MIGRATION),
    ("docs", "ships an order", "ships orders", UPDATE),
    ("keyConcurrency.key", ["/number"], ["/note"], MIGRATION),
    ("keyConcurrency.maxActive", 1, 2, UPDATE),
    ("keyConcurrency.maxActive", 2, 1, MIGRATION),
    ("keyConcurrency.heartbeatIntervalMs", 10_000, 5_000, UPDATE),
    ("keyConcurrency.heartbeatIntervalMs", 5_000, 10_000, MIGRATION),
    ("keyConcurrency.heartbeatTtlMs", 60_000, 90_000, UPDATE),
    ("keyConcurrency.heartbeatTtlMs", 90_000, 60_000, MIGRATION),
    ("keyConcurrency.stalePolicy", "fail-stale", "block", MIGRATION),
    ("queue.maxQueuedPerKey", 1, 2, UPDATE),
    ("queue.maxQueuedPerKey", 2, 1, MIGRATION),
    ("queue.whenDue", "wait", "when-full", MIGRATION),
    ("queue.whenDue", "when-full", "wait", UPDATE),
    ("queue.whenFull", "reject", "coalesce", UPDATE),
    ("queue.whenFull", "reject", "replace-oldest", UPDATE),
    ("queue.whenFull", "coalesce", "reject", MIGRATION),
    ("queue.whenFull", "coalesce", "replace-oldest", MIGRATION),
    ("schedules.nightly", None, NIGHTLY, UPDATE),
    ("schedules.nightly", NIGHTLY, None, MIGRATION),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "cron": "0 3 * * *"}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "timeZone": "Europe/Berlin"}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "end": "2027-01-01T00:00:00Z"}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "payload": {"number": 2}}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "jitterMs": 5000}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "catchUp": "all", "maxCatchUp": 5}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "cron": "0 3 * * *", "jitterMs": 5}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "overlap": "skip"}, UPDATE),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "overlap": "replace"}, MIGRATION),
    ("schedules.nightly", {**NIGHTLY, "overlap": "replace"}, NIGHTLY, UPDATE),
    (
        "schedules.nightly",
        {**NIGHTLY, "overlap": "replace"},
        {**NIGHTLY, "overlap": "cancel-running"},
        MIGRATION,
    ),
    (
        "schedules.nightly",
        {**NIGHTLY, "overlap": "cancel-running"},
        {**NIGHTLY, "overlap": "replace"},
        UPDATE,
    ),
    ("schedules.nightly", NIGHTLY, {**NIGHTLY, "calendar": "work-days"}, MIGRATION),
    ("somethingNew", None, 1, MIGRATION),
    ("result", NUMBER, {**NUMBER, "codec": "zstd"}, MIGRATION),
    ("result", {"digest": "d1"}, {"digest": "d2"}, MIGRATION),
    ("payload", {"digest": "d1"}, TEXT, MIGRATION),
    ("payload", {"digest": "d1"}, {**TEXT, **VERSION_2}, UPDATE),
    ("payload", TEXT, {**TEXT, **VERSION_2, "codec": "zstd"}, MIGRATION),
    ("payload", {"schema": {"type": "string"}}, {"schema": {}}, UPDATE),
    ("payload", {"schema": {}}, {"schema": {"type": "string"}}, MIGRATION),
    ("payload", TEXT, {**NUMBER, **VERSION_2}, UPDATE),
    ("payload", TEXT, {**NUMBER, "version": 2}, MIGRATION),
    ("payload", {**TEXT, **VERSION_2}, {**TEXT, "version": 3, "upgradesFrom": 1}, UPDATE),
    ("payload", {**TEXT, **VERSION_2}, {**TEXT, "version": 3, "upgradesFrom": 2}, MIGRATION),
    ("payload", {**TEXT, **VERSION_2}, {**TEXT, "version": 2}, MIGRATION),
    ("payload", {**TEXT, **VERSION_2}, TEXT, MIGRATION),
    ("payload", {**TEXT, **VERSION_2}, {**NUMBER, **VERSION_2}, MIGRATION),
    ("payload", TEXT, {**TEXT, "codec": "zstd"}, MIGRATION),
    ("result", {"schema": {"type": "integer"}}, {"schema": {"type": "number"}}, UPDATE),
    ("result", {"schema": {"type": "number"}}, {"schema": {"type": "integer"}}, MIGRATION),
]


@pytest.mark.parametrize(("field", "old", "new", "change_class"), CASES)
def test_a_field_that_changes_is_an_update_or_a_migration(
    field: str, old: Any, new: Any, change_class: ChangeClass
) -> None:
    [change] = changes(one_queue(with_field(field, old)), one_queue(with_field(field, new)))
    assert (change.field, change.old, change.new, change.change_class) == (
        field,
        old,
        new,
        change_class,
    )
    assert change.why


GOLDEN: Final = Path(__file__).parents[2] / "contracts" / "vectors" / "contract-changes.json"


def judged(field: str, old: Any, new: Any) -> dict[str, Any]:
    [change] = changes(one_queue(with_field(field, old)), one_queue(with_field(field, new)))
    return {
        "field": field,
        "old": old,
        "new": new,
        "weight": change.change_class,
        "why": change.why,
    }


def test_every_change_is_judged_as_the_golden_file_says() -> None:
    """To write it: python -m tests.contract.test_changes"""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert [judged(*case[:3]) for case in CASES] == golden


def test_every_field_of_a_manifest_has_a_rule_and_a_case() -> None:
    flat = {
        f"{name}.{member}" if name in ("keyConcurrency", "queue") else name
        for name, value in {**ENTRY, "schedules.*": NIGHTLY}.items()
        for member in (value if isinstance(value, dict) else [""])
        if name != "schedules"
    }
    tried = {"schedules.*" if field == "schedules.nightly" else field for field, *_ in CASES}
    assert flat <= CHANGE_RULES.keys()
    assert tried == CHANGE_RULES.keys() | {"somethingNew"}


def test_a_queue_that_comes_is_an_update_and_one_that_goes_a_migration() -> None:
    [came] = changes(one_queue(None), one_queue(ENTRY))
    [went] = changes(one_queue(ENTRY), one_queue(None))
    assert (came.change_class, went.change_class) == (UPDATE, MIGRATION)


def test_a_queue_of_which_nothing_is_known_is_a_migration() -> None:
    [change] = changes(one_queue({"untold": "not described"}), one_queue(ENTRY))
    assert (change.change_class, change.why) == (MIGRATION, "not described")


def test_what_a_later_version_says_beside_the_queues_is_a_migration() -> None:
    [change] = changes(MANIFEST, {**MANIFEST, "region": "north"})
    assert (change.queue, change.field, change.change_class) == ("", "region", MIGRATION)


def test_a_renamed_queue_is_a_migration() -> None:
    renamed = {**MANIFEST, "jobs": {"dispatch": ENTRY}}
    assert is_migration(changes(one_queue(ENTRY), renamed))


def test_a_key_for_a_queue_that_had_none_is_a_migration() -> None:
    unkeyed = {name: value for name, value in ENTRY.items() if name != "keyConcurrency"}
    assert is_migration(changes(one_queue(unkeyed), one_queue(ENTRY)))
    assert is_migration(changes(one_queue(ENTRY), one_queue(unkeyed)))


def test_the_same_contract_changes_nothing() -> None:
    assert changes(MANIFEST, MANIFEST) == []


def test_another_service_is_no_change_of_this_one() -> None:
    [change] = changes(MANIFEST, {**MANIFEST, "service": "store"})
    assert change.change_class is MIGRATION


class Before(BaseModel):
    number: int
    lines: list[str] = []


class WithDefault(Before):
    note: str = "none"


class WithDemand(Before):
    note: str


@pytest.mark.parametrize(("new", "change_class"), [(WithDefault, UPDATE), (WithDemand, MIGRATION)])
def test_a_new_field_needs_a_default(new: type[BaseModel], change_class: ChangeClass) -> None:
    old_entry = {**ENTRY, "payload": {"schema": Before.model_json_schema()}}
    new_entry = {**ENTRY, "payload": {"schema": new.model_json_schema()}}
    [change] = changes(one_queue(old_entry), one_queue(new_entry))
    assert change.change_class is change_class
    assert change_class is UPDATE or "needs 'note'" in change.why


if __name__ == "__main__":
    written = json.dumps([judged(*case[:3]) for case in CASES], indent=2)
    GOLDEN.write_text(f"{written}\n", encoding="utf-8")
