"""How far an operation is, and when it will be done. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.filter_text import format_filter
from jobs_admin.api.job_filter import JobFilter

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.api.views.operations import OperationView

_MIN_TIME: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """`rate` is how many jobs a second were processed so far; `left` is the time that is left.

    `text` is the filter of the operation, as operators write it.
    """

    settled: int
    refused: int
    percent: int
    rate: float | None
    left: timedelta | None
    text: str


def progress_of(operation: OperationView, now: datetime) -> OperationProgress:
    settled, total = operation.settled, operation.total
    took = (operation.ended_at or now) - operation.created_at
    rate = settled / took.total_seconds() if took >= _MIN_TIME and settled else None
    remaining = max(0, total - settled)
    is_running = not operation.is_over
    return OperationProgress(
        settled=settled,
        refused=sum(operation.refused.values()),
        percent=100 if total == 0 else min(100, settled * 100 // total),
        rate=rate,
        left=timedelta(seconds=remaining / rate) if rate and is_running else None,
        text=format_filter(JobFilter(**operation.filter.model_dump())),
    )
