"""What is wrong now and what to do, how much there is to do, and each queue in a line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import Invalid
from jobs_admin.api.history_client import HOUR
from jobs_admin.api.queue_rates import queue_rates
from jobs_admin.console.activity import SHOWN, SPANS, activity_chart, span_of, version_marks
from jobs_admin.console.live import EVERYTHING, SLOWLY
from jobs_admin.console.queue_rows import drain_words, queue_rows

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from jobs_admin.api.client import AdminClient
    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.dead_groups import ErrorGroups
    from jobs_admin.api.views.doctor import AttentionView
    from jobs_admin.api.views.history import HistoryView
    from jobs_admin.api.views.queues import QueueView
    from jobs_admin.api.views.services import StatsView
    from jobs_admin.api.views.workers import WorkerProcessView
    from jobs_admin.console.activity import Span
    from jobs_admin.console.console_request import ConsoleRequest

_MAX_QUEUES: Final = 100
_MAX_WORKERS: Final = 500
_MAX_ERRORS: Final = 5
# A state, and the events by which jobs come into it.
_STATES: Final = {
    "scheduled": "scheduled",
    "pending": "created",
    "active": "started",
    "retry": "retry",
    "failed": "failed",
    "dead": "dead",
}
_LIVE: Final = ("pending", "active", "retry")


@dataclass(frozen=True, slots=True)
class Facts:
    """What all open overviews show, read once for all of them.

    `durations` are of each queue, or None if there are too many queues.
    """

    attention: AttentionView
    stats: StatsView
    queues: Page[QueueView]
    history: HistoryView
    durations: HistoryView | None
    errors: ErrorGroups
    workers: Page[WorkerProcessView]


async def show(request: ConsoleRequest) -> Response:
    span = span_of(request.query.get("span"))
    read = partial(_read, request.reads, span, request.console.now(), request.min_seq)
    shared = request.console.shared
    facts = await shared.get(f"overview {span.name}", read, min_seq=request.min_seq)
    rates = queue_rates(facts.stats.per_minute)
    marks = version_marks(facts.workers.entries, facts.history.since)
    return request.render(
        "overview.html",
        topics=f"{EVERYTHING} {SLOWLY}",
        facts=facts,
        span=span,
        spans=SPANS,
        states=_STATES,
        rates=rates,
        drain=drain_words(rates, sum(facts.stats.states.get(state, 0) for state in _LIVE)),
        chart=activity_chart(facts.history, marks),
        shown=SHOWN,
        rows=queue_rows(facts.queues.entries, facts.durations),
    )


async def _read(admin: AdminClient, span: Span, now: datetime, min_seq: int) -> Facts:
    attention, stats, queues, (history, durations), errors, workers = await asyncio.gather(
        admin.attention(),
        admin.stats(),
        admin.list_queues(limit=_MAX_QUEUES, min_seq=min_seq),
        asyncio.gather(
            admin.history.events(now - span.length, step=span.step), _durations(admin, now)
        ),
        admin.group_errors(limit=_MAX_ERRORS),
        admin.list_workers(limit=_MAX_WORKERS),
    )
    return Facts(attention, stats, queues, history, durations, errors, workers)


async def _durations(admin: AdminClient, now: datetime) -> HistoryView | None:
    try:
        return await admin.history.events(now - HOUR, step=HOUR, per_queue=True)
    except Invalid:
        return None
