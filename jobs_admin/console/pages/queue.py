"""One queue: its settings, what its consumer does, its past, and pausing it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import NotFound
from jobs_admin.api.views.history import PastCursor, PastPart
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.console import form_values
from jobs_admin.console.activity import SHOWN, SPANS, activity_chart, span_of, version_marks
from jobs_admin.console.charts.percentile_bars import Percentiles
from jobs_admin.console.links import queue_path
from jobs_admin.console.live import SLOWLY
from jobs_admin.console.queue_rows import queue_rows
from jobs_admin.console.users import Role
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.api.views.history import HistoryView
    from jobs_admin.api.views.queues import QueueView
    from jobs_admin.console.console_request import ConsoleRequest

_MAX_WORKERS: Final = 500
_MAX_SCHEDULES: Final = 20
_PAST_JOBS: Final = 50


async def show(request: ConsoleRequest) -> Response:
    """Now, or with `at` as of a moment of the past."""
    at = request.query.get("at")
    return await (_show_now(request) if not at else _show_past(request, at))


async def _show_now(request: ConsoleRequest) -> Response:
    service, job_type = request.path["service"], request.path["type"]
    span = span_of(request.query.get("span"))
    since, reads = request.console.now() - span.length, request.reads
    queue, history, workers, schedules = await asyncio.gather(
        _queue(request),
        reads.history.events(since, step=span.step, per_queue=True, service=service, type=job_type),
        reads.list_workers(WorkerFilter(service=service), limit=_MAX_WORKERS),
        reads.schedules.list(service=service, type=job_type, limit=_MAX_SCHEDULES),
    )
    serving = [each for each in workers.entries if each.takes(service, job_type)]
    [row] = queue_rows([queue], history)
    return request.render(
        "queue.html",
        topics=f"queue:{service}/{job_type} {SLOWLY}",
        queue=queue,
        row=row,
        history=history,
        chart=activity_chart(history, version_marks(serving, history.since)),
        percentiles=percentiles(history),
        shown=SHOWN,
        span=span,
        spans=SPANS,
        states=list(JobState),
        workers=serving,
        schedules=schedules,
    )


async def _show_past(request: ConsoleRequest, given: str) -> Response:
    service, job_type = request.path["service"], request.path["type"]
    at = form_values.moment(given, "at")
    state = request.query.get("state", "")
    if step := request.query.get("step"):
        moved = moved_by(at, step).isoformat()
        return request.redirect(queue_path(service, job_type, at=moved, state=state))
    wanted = [JobState(state)] if state in set(JobState) else None
    history, after = request.reads.history, past_cursor(request.query.get("after"))
    counts, jobs = await asyncio.gather(
        history.stats_at(at, service=service, type=job_type),
        history.list_at(
            at, service=service, type=job_type, state=wanted, limit=_PAST_JOBS, after=after
        ),
    )
    more = None
    if jobs.next_after is not None:
        cursor = cursor_text(jobs.next_after)
        more = queue_path(service, job_type, at=at.isoformat(), state=state, after=cursor)
    return request.render(
        "queue_past.html",
        topics="",
        service=service,
        type=job_type,
        counts=counts,
        jobs=jobs,
        more=more,
        state=wanted[0] if wanted else None,
        states=list(JobState),
    )


def moved_by(at: datetime, minutes: str) -> datetime:
    """Raises FormInvalid."""
    try:
        return at + timedelta(minutes=int(minutes))
    except (ValueError, OverflowError):
        raise form_values.FormInvalid(f"step: {minutes!r} is not a number of minutes") from None


def cursor_text(cursor: PastCursor) -> str:
    return f"{cursor.part},{cursor.stored_at.isoformat()},{cursor.first_seq}"


def past_cursor(text: str | None) -> PastCursor | None:
    """The cursor of an address. Raises FormInvalid."""
    if not text:
        return None
    try:
        part, stored_at, first_seq = text.split(",")
        return PastCursor(
            part=PastPart(part),
            stored_at=datetime.fromisoformat(stored_at),
            first_seq=int(first_seq),
        )
    except ValueError:
        raise form_values.FormInvalid("after: this is no place in a list") from None


async def _queue(request: ConsoleRequest) -> QueueView:
    service, job_type = request.path["service"], request.path["type"]
    page = await request.reads.list_queues(
        service=service, type=job_type, with_ended=True, limit=1, min_seq=request.min_seq
    )
    if not page.entries:
        raise NotFound(f"there is no queue {service}/{job_type}, and there were no jobs of it")
    return page.entries[0]


def percentiles(history: HistoryView) -> list[Percentiles]:
    found = {"wait": history.wait, "run": history.run}
    return [
        Percentiles(name, each.p50_ms, each.p95_ms, each.p99_ms)
        for name, each in found.items()
        if each is not None
    ]


async def pause(request: ConsoleRequest) -> Response:
    service, job_type = request.path["service"], request.path["type"]
    form = await request.form()
    why, length = form_values.reason(form), form_values.duration(form, "duration")
    admin = request.client(Role.OPERATOR)
    await admin.pause_queue(service, job_type, reason=why, duration=length)
    return request.redirect(queue_path(service, job_type))


async def resume(request: ConsoleRequest) -> Response:
    service, job_type = request.path["service"], request.path["type"]
    why = form_values.text(await request.form(), "reason")
    await request.client(Role.OPERATOR).resume_queue(service, job_type, reason=why)
    return request.redirect(queue_path(service, job_type))
