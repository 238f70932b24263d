"""Decisions for a record that is too large for one message.

A record has the payload of its schedule, all jobs of one decision and the last runs. If it could
not be written, the schedule would stop for ever, because its alarm would find the same ticks each
time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.schedules.changes import finish
from trellis_jobs.model.schedules.firing import fire
from trellis_jobs.model.schedules.record import Decision
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from trellis_jobs.model.schedules.record import ScheduleRecord
    from trellis_jobs.model.states import JobState

# Short, because it must fit where a job does not.
_REASON: Final = "the schedule's record would exceed max_payload"


def decisions_by_size(
    record: ScheduleRecord, *, now: datetime, previous: JobState | None, triggered: JobState | None
) -> Iterator[Decision]:
    """What `fire` decides, and then ever smaller decisions about the same ticks.

    Each is for half as many jobs as the one before; the ticks without jobs are skipped. The last
    ones create no job, and say so in the last run, or have no runs at all.
    """
    decide = partial(fire, record, now=now, previous=previous, triggered=triggered)
    decision = decide()
    yield decision
    while (count := len(decision.record.unfinished)) > 1:
        decision = decide(max_jobs=count // 2)
        yield decision
    planned = {job.job_id: _REASON for job in decision.record.unfinished}
    refused = finish(decision.record, [], refused=planned, now=now)
    # A job that is never created must not hide the previous one from the overlap policy.
    refused = replace(refused, last_job=record.last_job)
    for runs in (refused.runs, refused.runs[-1:], ()):
        yield Decision(replace(refused, runs=runs), decision.alarm_at)
