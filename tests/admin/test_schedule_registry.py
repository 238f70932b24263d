"""The admin runtime's copy of the schedules, while their records are read and change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jobs_admin.api.errors import SchedulesUnavailable
from jobs_admin.schedules import registry as module
from jobs_admin.schedules.registry import ScheduleRegistry
from tests.admin.test_overdue_schedules import due_record
from trellis_jobs.environment import monotonic
from trellis_jobs.jetstream.control.record_feed import ReadingBegins
from trellis_jobs.jetstream.schedules.records import StoredSchedule
from trellis_jobs.jetstream.schedules.schedule_feed import ScheduleChange
from trellis_jobs.model.schedules.address import ScheduleAddress

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def change(name: str, revision: int, service: str = "office") -> ScheduleChange:
    address = ScheduleAddress(service, "report", name)
    record = due_record(address, NOON)
    return ScheduleChange(address, StoredSchedule(record, revision, stored_at=NOON))


def deletion(name: str, revision: int) -> ScheduleChange:
    address = ScheduleAddress("office", "report", name)
    return ScheduleChange(address, StoredSchedule(None, revision, stored_at=NOON))


def listed(registry: ScheduleRegistry, service: str | None = None) -> list[str]:
    return [each.address.schedule for each in registry.select(service)]


def test_schedules_are_listed_once_all_records_were_read() -> None:
    registry = ScheduleRegistry(monotonic)
    registry.apply(ReadingBegins(is_complete=True))
    registry.apply(change("nightly", 7))
    assert (listed(registry), registry.is_complete) == ([], False)
    registry.apply(change("daily", 8))
    registry.apply(None)
    assert (listed(registry), registry.is_complete) == (["daily", "nightly"], True)


def test_changes_and_deletions_are_followed() -> None:
    registry = ScheduleRegistry(monotonic)
    for each in (ReadingBegins(is_complete=True), None, change("a", 1), change("b", 2)):
        registry.apply(each)
    registry.apply(deletion("a", 3))
    assert listed(registry) == ["b"]
    registry.apply(change("a", 4, service="another"))
    assert listed(registry) == ["a", "b"]
    assert listed(registry, "office") == ["b"]


def test_while_all_records_are_read_again_the_known_ones_are_listed() -> None:
    registry = ScheduleRegistry(monotonic)
    for each in (ReadingBegins(is_complete=True), change("a", 1), change("b", 2), None):
        registry.apply(each)
    registry.apply(ReadingBegins(is_complete=True))
    registry.apply(change("b", 2))
    assert listed(registry) == ["a", "b"]
    registry.apply(None)
    assert listed(registry) == ["b"], "the other was removed meanwhile"


async def test_a_reader_waits_for_changes_that_it_knows_to_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)
    registry = ScheduleRegistry(monotonic)
    with pytest.raises(SchedulesUnavailable):
        await registry.until(0)
    for each in (ReadingBegins(is_complete=True), change("a", 5), None):
        registry.apply(each)
    await registry.until(5)
    with pytest.raises(SchedulesUnavailable):
        await registry.until(6)
    registry.apply(deletion("a", 6))
    await registry.until(6)
