"""The kind of the option `schedules`: how it is read, checked, and written to a manifest.

What it needs is imported where there are schedules: most queues have none, and their services start
sooner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.option_kinds import Kind
from trellis_jobs.contract.schedules import Schedule, read_schedules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.schedule_entry import ScheduleEntry
    from trellis_jobs.model.schedules.definition import ScheduleDefinition


def _check(option: str, schedules: Mapping[str, ScheduleDefinition]) -> None:
    if schedules:
        from trellis_jobs.contract.schedule_entry import check_schedules  # noqa: PLC0415

        check_schedules(option, schedules)


def _to_json(schedules: Mapping[str, ScheduleDefinition]) -> dict[str, Any] | None:
    """None if there are none, so that the manifest does not have the field."""
    if not schedules:
        return None
    from trellis_jobs.contract.schedule_entry import schedules_to_json  # noqa: PLC0415

    return schedules_to_json(schedules)


def _from_json(entries: Mapping[str, ScheduleEntry] | None) -> dict[str, Schedule]:
    if not entries:
        return {}
    from trellis_jobs.contract.schedule_entry import schedules_from_json  # noqa: PLC0415

    return schedules_from_json(entries)


SCHEDULES: Final = Kind(
    # As text, because only manifests need the class.
    json_type="ScheduleEntries | None",
    read=read_schedules,
    check=_check,
    to_json=_to_json,
    from_json=_from_json,
)
