"""Builders of jobs and events for tests.

Every builder returns a plausible event of one job. Keyword arguments replace its fields:
`created(deadline=after(60))`, `completed(attempt=SECOND)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import strategies as st

from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt, work_identity
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry, Job, fold
from trellis_jobs.model.job_errors import JobError
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot, Waiting
from trellis_jobs.model.notes import LogLevel, LogLine, Notes, Progress
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.retry import RetryPolicy
from trellis_jobs.model.settlement import AttemptContext
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

S = JobState

NOON: Final = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
REPORT: Final = JobAddress("documents", "render-report", "01JQEXAMP1E0000000000000AA")
CONTEXT: Final = JobContext(
    "01JQREQ0EST0000000000000BB", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)
WORK: Final = work_identity(41, 1_774_699_200_000_000_000)
FIRST: Final = Attempt("01JQATTEMPT000000000000001", "pod-7", WORK, 1)
SECOND: Final = Attempt("01JQATTEMPT000000000000002", "pod-8", WORK, 2)
KEY: Final = KeyAddress(
    REPORT.service,
    REPORT.job_type,
    "f13b9f743f4ea7a98d6898821d27b0df6e86d33237e042a6f1542dae12cb52f0",
)
POLICY: Final = RetryPolicy(3, (timedelta(seconds=5), timedelta(seconds=30)))


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def error(**changes: Any) -> JobError:
    return replace(
        JobError(type="HTTPError", message="503 from upstream", tries=1, at=after(2)), **changes
    )


def notes(*lines: str, progress: Progress | None = None) -> Notes:
    said = (LogLine(at=after(2), level=LogLevel.INFO, message=line) for line in lines)
    return Notes(progress, tuple(said))


def created(**changes: Any) -> e.Created:
    return replace(
        e.Created(
            job=REPORT, context=CONTEXT, at=NOON, tries=0, payload={"doc": "d-1"}, max_tries=3
        ),
        **changes,
    )


def scheduled(**changes: Any) -> e.Scheduled:
    return replace(
        e.Scheduled(
            job=REPORT,
            context=CONTEXT,
            at=NOON,
            tries=0,
            payload={"doc": "d-1"},
            max_tries=3,
            run_at=after(3600),
        ),
        **changes,
    )


def retried(**changes: Any) -> e.Retried:
    return replace(
        e.Retried(
            job=REPORT, context=CONTEXT, at=after(9), tries=0, payload={"doc": "d-1"}, max_tries=3
        ),
        **changes,
    )


def started(**changes: Any) -> e.Started:
    return replace(
        e.Started(job=REPORT, context=CONTEXT, at=after(1), tries=1, attempt=FIRST), **changes
    )


def progressed(**changes: Any) -> e.Progressed:
    said = notes(progress=Progress(step="draw", message="page 2", current=2, total=9))
    return replace(
        e.Progressed(job=REPORT, context=CONTEXT, at=after(2), tries=1, attempt=FIRST, notes=said),
        **changes,
    )


def logged(**changes: Any) -> e.Logged:
    said = notes("page 2 done")
    return replace(
        e.Logged(job=REPORT, context=CONTEXT, at=after(2), tries=1, attempt=FIRST, notes=said),
        **changes,
    )


def heartbeat(**changes: Any) -> e.Heartbeat:
    return replace(
        e.Heartbeat(job=REPORT, context=CONTEXT, at=after(2), tries=1, attempt=FIRST), **changes
    )


def retry_scheduled(**changes: Any) -> e.RetryScheduled:
    return replace(
        e.RetryScheduled(
            job=REPORT,
            context=CONTEXT,
            at=after(2),
            tries=1,
            attempt=FIRST,
            error=error(),
            next_attempt_at=after(7),
        ),
        **changes,
    )


def snoozed(**changes: Any) -> e.RetryScheduled:
    why = error(type="snooze", message="the bank is closed")
    return replace(
        e.RetryScheduled(
            job=REPORT,
            context=CONTEXT,
            at=after(2),
            tries=0,
            attempt=FIRST,
            error=why,
            next_attempt_at=after(62),
        ),
        **changes,
    )


def completed(**changes: Any) -> e.Completed:
    return replace(
        e.Completed(
            job=REPORT, context=CONTEXT, at=after(2), tries=1, attempt=FIRST, result={"pages": 4}
        ),
        **changes,
    )


def failed(**changes: Any) -> e.Failed:
    why = error(type="BadFile", message="not a PDF")
    return replace(
        e.Failed(job=REPORT, context=CONTEXT, at=after(2), tries=1, attempt=FIRST, error=why),
        **changes,
    )


def dead(**changes: Any) -> e.Dead:
    return replace(
        e.Dead(job=REPORT, context=CONTEXT, at=after(2), tries=3, attempt=FIRST, error=error()),
        **changes,
    )


def stale(**changes: Any) -> e.Stale:
    why = error(type="stale", message="the key lease expired")
    return replace(
        e.Stale(job=REPORT, context=CONTEXT, at=after(2), tries=1, attempt=FIRST, error=why),
        **changes,
    )


def stale_completion_ignored(**changes: Any) -> e.StaleCompletionIgnored:
    return replace(
        e.StaleCompletionIgnored(
            job=REPORT,
            context=CONTEXT,
            at=after(3),
            tries=1,
            lost_attempt=FIRST.id,
            reason="another attempt owns the job",
        ),
        **changes,
    )


def cancelled(**changes: Any) -> e.Cancelled:
    return replace(e.Cancelled(**_decided(), by="documents", reason="not needed"), **changes)


def expired(**changes: Any) -> e.Expired:
    return replace(e.Expired(**_decided(), by="worker", reason="the deadline passed"), **changes)


def skipped(**changes: Any) -> e.Skipped:
    return replace(e.Skipped(**_decided(), reason="replace-oldest"), **changes)


def dismissed(**changes: Any) -> e.Dismissed:
    return replace(e.Dismissed(**_decided(), by="ann", reason="known outage"), **changes)


def _decided() -> e.EventFields:
    return {"job": REPORT, "context": CONTEXT, "at": after(3), "tries": 1}


ONE_OF_EACH: Final[tuple[e.Event, ...]] = (
    scheduled(),
    created(),
    started(),
    retry_scheduled(),
    progressed(),
    logged(),
    completed(),
    failed(),
    cancelled(),
    expired(),
    skipped(),
    stale(),
    heartbeat(),
    stale_completion_ignored(),
    retried(by="ann", reason="upstream is back"),
    dead(),
    dismissed(),
)
OF_KIND: Final[Mapping[EventKind, e.Event]] = {event.kind: event for event in ONE_OF_EACH}

# The shortest legal way into each state.
LEADING_TO: Final[Mapping[JobState, tuple[e.Event, ...]]] = {
    S.SCHEDULED: (scheduled(),),
    S.PENDING: (created(),),
    S.ACTIVE: (created(), started()),
    S.RETRY: (created(), started(), retry_scheduled()),
    S.COMPLETED: (created(), started(), completed()),
    S.FAILED: (created(), started(), failed()),
    S.CANCELLED: (created(), cancelled(tries=0)),
    S.EXPIRED: (created(), expired(tries=0)),
    S.SKIPPED: (created(), skipped(tries=0)),
    S.STALE: (created(), started(), stale()),
    S.DEAD: (created(), started(), dead()),
    S.DISMISSED: (created(), started(), dead(), dismissed()),
}


def log(*events: e.Event, first: int = 11) -> list[Entry]:
    """The events as log entries, with gaps in the sequences as if of other jobs."""
    return [Entry(first + 3 * n, event) for n, event in enumerate(events)]


def job(*events: e.Event) -> Job:
    folded = fold(log(*events))
    assert folded is not None
    return folded


def status(*events: e.Event, **changes: Any) -> JobStatus:
    return replace(job(*(events or LEADING_TO[S.PENDING])).status, **changes)


def status_in(state: JobState, **changes: Any) -> JobStatus:
    return status(*LEADING_TO[state], **changes)


def running(**changes: Any) -> AttemptContext:
    return replace(
        AttemptContext(
            job=REPORT, context=CONTEXT, attempt=FIRST, tries=1, max_tries=3, policy=POLICY
        ),
        **changes,
    )


def slot(job_id: str = REPORT.job_id, token: str = FIRST.id, **changes: Any) -> Slot:
    return replace(
        Slot(
            job_id=job_id,
            token=token,
            instance=FIRST.instance,
            started_at=after(1),
            heartbeat_at=after(11),
            expires_at=after(71),
            tries=1,
            context=CONTEXT,
        ),
        **changes,
    )


def waiting(job_id: str = REPORT.job_id, **changes: Any) -> Waiting:
    return replace(
        Waiting(job_id=job_id, created_at=NOON, request_id=CONTEXT.request_id, context=CONTEXT),
        **changes,
    )


def key_state(**changes: Any) -> KeyState:
    return replace(
        KeyState(address=KEY, display="zendesk:acme:tickets", max_active=1, max_queued=1),
        **changes,
    )


def _voices(event: e.Event) -> Iterable[e.Event]:
    """The event as written by its owner, by another attempt, and by a foreign runtime."""
    if not isinstance(event, e.AttemptEvent):
        return [event, replace(event, tries=2)]
    return [replace(event, attempt=attempt) for attempt in (FIRST, SECOND, None)]


_EXAMPLES: Final = (*ONE_OF_EACH, snoozed())
ANY_EVENT: Final = st.sampled_from([said for event in _EXAMPLES for said in _voices(event)])
NOTE: Final = ANY_EVENT.filter(
    lambda event: (
        event.kind
        in {
            EventKind.PROGRESS,
            EventKind.LOGGED,
            EventKind.HEARTBEAT,
            EventKind.STALE_COMPLETION_IGNORED,
        }
    )
)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 16) -> list[e.Event]:
    """Any sequence of events, legal or not; every other one is legal where it stands."""
    history: list[e.Event] = []
    stands: JobStatus | None = None
    for _ in range(draw(st.integers(0, max_size))):
        before = stands
        legal = [event for event in _EXAMPLES if not isinstance(advance(before, event), Illegal)]
        event = draw(st.one_of(st.sampled_from(legal), ANY_EVENT))
        moved = advance(before, event)
        stands = before if isinstance(moved, Illegal) else moved
        history.append(event)
    return history
