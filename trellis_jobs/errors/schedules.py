"""Errors about schedules."""

from __future__ import annotations

from trellis_jobs.errors.base import JobsError


class ScheduleNotFound(JobsError):
    def __init__(self, schedule: str) -> None:
        super().__init__(f"schedule {schedule} does not exist")
        self.schedule = schedule


class ScheduleDeclared(JobsError):
    def __init__(self, schedule: str) -> None:
        super().__init__(
            f"schedule {schedule} is declared in the code of its service: change it there, or "
            "pause it"
        )
        self.schedule = schedule


class ScheduleRefused(JobsError):
    """The change of a schedule was not made."""

    def __init__(self, schedule: str, reason: str) -> None:
        super().__init__(f"schedule {schedule} was not changed: {reason}")
        self.schedule = schedule
        self.reason = reason
