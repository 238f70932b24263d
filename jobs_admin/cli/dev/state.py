"""The state of all jobs on a server, computed from their events with the reducer."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.job import Applied, Job, reduce
from trellis_jobs.model.reducer import RULES
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Entry

RATE_WINDOW: Final = timedelta(seconds=10)
_NEWS_KEPT: Final = 200
_ENDED_KEPT: Final = 500
# End states that a job can leave again, for example by a retry.
_REVIVABLE: Final = frozenset(
    state for rule in RULES.values() if rule.leads_to for state in rule.legal_from
)


@dataclass(slots=True)
class QueueState:
    """The number of jobs of one queue by state, and the times of the latest ends."""

    service: str
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


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event, and the job after it."""

    event: Event
    job: Job


@dataclass(frozen=True, slots=True)
class Notice:
    """A message from an app or from the session."""

    at: datetime
    by: str
    text: str
    is_error: bool = False


class DevState:
    """Events from before `since` update the jobs, but are not news. `on_news` gets all news."""

    def __init__(
        self, since: datetime, on_news: Callable[[JobEvent | Notice], None] | None = None
    ) -> None:
        self.since = since
        self.queues: dict[tuple[str, str], QueueState] = {}
        self.apps: dict[str, Notice] = {}
        self.news: deque[JobEvent | Notice] = deque(maxlen=_NEWS_KEPT)
        self.ignored = 0
        self._on_news = on_news
        self._live: dict[JobAddress, Job] = {}
        self._ended: dict[JobAddress, Job] = {}
        self._revivable: dict[JobAddress, Job] = {}

    def apply(self, entry: Entry) -> None:
        event, address = entry.event, entry.event.job
        before = self._known(address)
        reduced = reduce(before, entry)
        if not isinstance(reduced, Applied):
            self.ignored += 1
            return
        self._keep(reduced.job)
        self._count(event, before, reduced.job)
        if event.at >= self.since:
            self._publish(JobEvent(event, reduced.job))

    def add_queues(self, service: str, queues: Iterable[str]) -> None:
        """Show queues that have a worker before they have a job."""
        for name in queues:
            self._queue(service, name)

    def add_notice(self, by: str, text: str, *, is_error: bool = False) -> None:
        self._publish(Notice(datetime.now(UTC), by, text, is_error))

    def set_app_status(self, app: str, text: str, *, is_error: bool = False) -> None:
        self.apps[app] = Notice(datetime.now(UTC), app, text, is_error)

    def label(self, service: str, queue: str) -> str:
        """The queue's name, with the service only if there are several."""
        services = {of for of, _ in self.queues}
        return queue if services <= {service} else f"{service}/{queue}"

    def recent(self, count: int) -> list[Job]:
        """Delayed jobs, other live jobs in the order of their creation, and those that ended last.

        Delayed jobs are left out first.
        """
        by_age = self._live.values()
        live = sorted(by_age, key=lambda job: job.state is not JobState.SCHEDULED)[-count:]
        ended = list(self._ended.values())[::-1][: count - len(live)]
        return live + ended

    def totals(self) -> Counter[JobState]:
        return sum((queue.states for queue in self.queues.values()), Counter())

    def _known(self, address: JobAddress) -> Job | None:
        groups = (self._live, self._ended, self._revivable)
        return next((jobs[address] for jobs in groups if address in jobs), None)

    def _keep(self, job: Job) -> None:
        """Forget jobs that ended long ago, unless their state can still change."""
        self._revivable.pop(job.address, None)
        if not job.is_over:
            self._ended.pop(job.address, None)
            self._live[job.address] = job
            return
        self._live.pop(job.address, None)
        self._ended[job.address] = job
        if len(self._ended) > _ENDED_KEPT:
            oldest = self._ended.pop(next(iter(self._ended)))
            if oldest.state in _REVIVABLE:
                self._revivable[oldest.address] = oldest

    def _count(self, event: Event, before: Job | None, after: Job) -> None:
        queue = self._queue(after.address.service, after.address.job_type)
        queue.moved(before.state if before else None, after.state)
        if after.is_over and event.kind is not EventKind.STALE_COMPLETION_IGNORED:
            queue.ended(event.at)

    def _queue(self, service: str, name: str) -> QueueState:
        return self.queues.setdefault((service, name), QueueState(service, name))

    def _publish(self, news: JobEvent | Notice) -> None:
        self.news.append(news)
        if self._on_news is not None:
            self._on_news(news)
