"""What is known of the jobs of a service, folded from its events with the one reducer."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Applied, Job, reduce
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.model.events import Event
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Entry

RATE_WINDOW: Final = timedelta(seconds=10)
_EVENTS_KEPT: Final = 200
_ENDED_KEPT: Final = 500


@dataclass(slots=True)
class QueueBoard:
    """How many jobs of one queue are in which state, and when the latest of them ended."""

    name: str
    states: Counter[JobState] = field(default_factory=Counter)
    _ends: deque[datetime] = field(default_factory=deque)

    def moved(self, before: JobState | None, after: JobState) -> None:
        if before is not None:
            self.states[before] -= 1
        self.states[after] += 1

    def ended(self, at: datetime) -> None:
        self._ends.append(at)

    def ends_per_second(self, now: datetime) -> float:
        while self._ends and self._ends[0] < now - RATE_WINDOW:
            self._ends.popleft()
        return len(self._ends) / (RATE_WINDOW / timedelta(seconds=1))


class Board:
    """Events from before `since` count for the jobs, but are not news."""

    def __init__(self, queues: Iterable[str], since: datetime) -> None:
        self.since = since
        self.queues = {name: QueueBoard(name) for name in queues}
        self.news: deque[tuple[Event, Job]] = deque(maxlen=_EVENTS_KEPT)
        self.notices: deque[str] = deque(maxlen=_EVENTS_KEPT)
        self.ignored = 0
        self._live: dict[JobAddress, Job] = {}
        self._ended: dict[JobAddress, Job] = {}

    def take(self, entry: Entry) -> Job | None:
        """Move the job; returns it when the event is news."""
        event, address = entry.event, entry.event.job
        before = self._live.get(address) or self._ended.get(address)
        reduced = reduce(before, entry)
        if not isinstance(reduced, Applied):
            self.ignored += 1
            return None
        self._keep(reduced.job)
        self._count(event, before, reduced.job)
        if event.at < self.since:
            return None
        self.news.append((event, reduced.job))
        return reduced.job

    def recent(self, count: int) -> list[Job]:
        """Those on their way, in the order of their creation, then those that ended last."""
        live = list(self._live.values())[-count:]
        ended = list(self._ended.values())[::-1][: count - len(live)]
        return live + ended

    def totals(self) -> Counter[JobState]:
        return sum((queue.states for queue in self.queues.values()), Counter())

    def _keep(self, job: Job) -> None:
        if not job.is_over:
            self._ended.pop(job.address, None)
            self._live[job.address] = job
            return
        self._live.pop(job.address, None)
        self._ended[job.address] = job
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def _count(self, event: Event, before: Job | None, after: Job) -> None:
        name = after.address.job_type
        queue = self.queues.setdefault(name, QueueBoard(name))
        queue.moved(before.state if before else None, after.state)
        if after.is_over and event.kind is not EventKind.STALE_COMPLETION_IGNORED:
            queue.ended(event.at)
