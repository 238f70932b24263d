"""A job and its log lines, computed from its history with the reducer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.api.views.jobs import JobView, LogLineView
from trellis_jobs.model import events as e
from trellis_jobs.wire import jobs as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trellis_jobs.model.timeline import TimelineEntry


def view_of(history: Sequence[TimelineEntry]) -> JobView | None:
    """The job as Jobs.Get returns it. Returns None when every event was ignored."""
    job = history[-1].job if history else None
    if job is None:
        return None
    applied = [each.record.sequence for each in history if each.ignored is None]
    return JobView.model_validate(
        {
            **wire.to_json(job),
            "logs": [line for each in history for line in log_lines(each)],
            "firstSeq": applied[0],
            "lastSeq": applied[-1],
        }
    )


def log_lines(happened: TimelineEntry) -> list[LogLineView]:
    """Any event of an attempt can carry log lines."""
    event, job = happened.event, happened.job
    if happened.ignored is not None or job is None or not isinstance(event, e.AttemptEvent):
        return []
    return [
        LogLineView(
            timestamp=line.at,
            level=line.level,
            message=line.message,
            run_seq=job.status.run,
        )
        for line in event.notes.lines
    ]
