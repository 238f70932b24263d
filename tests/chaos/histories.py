"""What happened to each job, event by event, and where the one reducer says it stood."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trellis_jobs.model import events as e
from trellis_jobs.model.job import Entry, Ignored, Job, reduce
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.states import JobState


@dataclass(frozen=True)
class Step:
    """One event, and where the reducer says its job stood before and after it."""

    entry: Entry
    before: JobStatus | None
    after: JobStatus | None
    illegal: str | None = None

    @property
    def event(self) -> e.Event:
        return self.entry.event

    @property
    def is_active(self) -> bool:
        return self.after is not None and self.after.state is JobState.ACTIVE


Histories = Mapping[str, Sequence[Step]]


def folded(entries: Iterable[Entry]) -> Histories:
    jobs: dict[str, Job | None] = defaultdict(lambda: None)
    steps: dict[str, list[Step]] = defaultdict(list)
    for entry in entries:
        job_id = entry.event.job.job_id
        before = jobs[job_id]
        reduced = reduce(before, entry)
        jobs[job_id] = reduced.job
        steps[job_id].append(
            Step(
                entry,
                before.status if before else None,
                reduced.job.status if reduced.job else None,
                reduced.reason if isinstance(reduced, Ignored) else None,
            )
        )
    return steps


def told(history: Iterable[Step]) -> tuple[str, ...]:
    return tuple(_told(step.entry) for step in history)


def _told(entry: Entry) -> str:
    event = entry.event
    attempt = event.attempt if isinstance(event, e.AttemptEvent) else None
    who = f" by {attempt.id} on {attempt.instance}, delivery {attempt.delivery}" if attempt else ""
    error = getattr(event, "error", None)
    why = f" ({error.type}: {error.message})" if error else ""
    return f"{entry.sequence} {event.at.time()} {event.kind} try {event.tries}{who}{why}"
