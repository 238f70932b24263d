"""The rules about jobs themselves: queues that fall behind, fail, or lose jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.queue_rates import queue_rates
from jobs_admin.api.views.doctor import About, Subject
from jobs_admin.doctor.findings import about_queue, broken, warning
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobs_admin.api.queue_rates import QueueRates
    from jobs_admin.api.views.doctor import Finding
    from jobs_admin.api.views.queues import QueueView

# The oldest waiting job of a healthy queue is younger than this.
MAX_AGE: Final = timedelta(minutes=5)
# A queue with fewer tries per minute says too little about its errors.
MIN_TRIES_PER_MINUTE: Final = 0.4
MAX_ERROR_SHARE: Final = 0.5
MAX_DEAD_PER_MINUTE: Final = 1.0
_MILLISECOND: Final = timedelta(milliseconds=1)
# Below this share of used slots, jobs wait for something else than a slot.
_BUSY: Final = 0.5


def check_jobs(queue: QueueView, failing_since: datetime | None = None) -> Iterator[Finding]:
    rates = queue_rates(queue.per_minute or {})
    about = about_queue(queue.service, queue.type)
    if is_failing(queue):
        yield broken(
            f"{queue.name}: {rates.error_share:.0%} of tries fail ({rates.failing:g} of "
            f"{rates.trying:g} per minute)",
            f"see the errors of {queue.name}; if what it depends on is down, pause the queue until "
            "it is back",
            about,
            failing_since,
        )
    if is_too_old(queue):
        age = format_duration((queue.oldest_age_ms or 0) * _MILLISECOND)
        yield warning(
            f"{queue.name}: the oldest of {queue.waiting:,} waiting jobs has waited for {age}",
            _why_too_old(queue, rates),
            about,
            queue.oldest_at,
        )
    died = (queue.per_minute or {}).get(EventKind.DEAD, 0.0)
    if died >= MAX_DEAD_PER_MINUTE:
        yield warning(
            f"{queue.name}: {died:g} jobs per minute die",
            "find their errors, mend the cause, and replay the dead jobs",
            About(subject=Subject.DEAD_JOBS, service=queue.service, type=queue.type),
        )


def is_failing(queue: QueueView) -> bool:
    rates = queue_rates(queue.per_minute or {})
    share = rates.error_share
    return share is not None and share > MAX_ERROR_SHARE and rates.trying >= MIN_TRIES_PER_MINUTE


def first_failing_minute(tries: Sequence[int], failures: Sequence[int]) -> int:
    """The index of the minute from which on most tries have failed, up to the last one.

    Minutes without tries count as the minutes around them.
    """
    first = len(tries)
    for index in reversed(range(len(tries))):
        if tries[index] and failures[index] <= MAX_ERROR_SHARE * tries[index]:
            break
        if tries[index]:
            first = index
    return min(first, max(0, len(tries) - 1))


def is_too_old(queue: QueueView) -> bool:
    """Queues that are paused or have no worker are reported as such."""
    if queue.paused or queue.unattended or not queue.waiting:
        return False
    return (queue.oldest_age_ms or 0) * _MILLISECOND > MAX_AGE


def _why_too_old(queue: QueueView, rates: QueueRates) -> str:
    if is_failing(queue):
        return "most tries fail: mend that first"
    slots = queue.worker_slots or 0
    if queue.free_slots and slots and (queue.in_flight or 0) < _BUSY * slots:
        return (
            "workers have free slots: the jobs may wait for their keys, see the keys of the queue"
        )
    if queue.in_flight and not rates.leaving:
        return "no job has ended lately: handlers may be stuck, look at the active jobs"
    drained = rates.time_to_drain(queue.waiting)
    if drained is None:
        return "jobs arrive faster than they end: start more workers or raise the concurrency"
    return f"at this pace it is drained in {format_duration(drained)}; more workers are quicker"
