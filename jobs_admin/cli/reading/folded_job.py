"""A job and its log lines, folded from its history with the one reducer."""

from __future__ import annotations

from collections.abc import Sequence

from jobs_admin.api.views.jobs import JobView, LogLineView
from trellis_jobs.model import events as e
from trellis_jobs.model.timeline import TimelineEntry
from trellis_jobs.wire import jobs as wire


def view_of(told: Sequence[TimelineEntry]) -> JobView | None:
    """The job as Jobs.Get tells it; None when nothing of its history counts."""
    job = told[-1].job if told else None
    if job is None:
        return None
    counted = [each.record.sequence for each in told if each.ignored is None]
    return JobView.model_validate(
        {
            **wire.to_json(job),
            "logs": [line for each in told for line in log_lines(each)],
            "firstSeq": counted[0],
            "lastSeq": counted[-1],
        }
    )


def log_lines(told: TimelineEntry) -> list[LogLineView]:
    """Lines ride on any event of their attempt."""
    if told.ignored is not None or told.job is None or not isinstance(told.event, e.AttemptEvent):
        return []
    return [
        LogLineView(
            timestamp=line.at,
            level=line.level,
            message=line.message,
            run_seq=told.job.status.run,
        )
        for line in told.event.notes.lines
    ]
