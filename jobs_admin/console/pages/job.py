"""One job: its state and why, its runs as a chart, and everything that its log has about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobs_admin.api.errors import Invalid, NotFound, RequestFailed
from jobs_admin.console.charts.gantt import gantt, span_words
from jobs_admin.console.job.actions import actions_in, carry_out
from jobs_admin.console.job.attempts import JobAttempt, attempts_of, with_lines
from jobs_admin.console.job.content import content_of
from jobs_admin.console.job.event_rows import (
    PAGE_SIZE,
    EventPage,
    event_page,
    event_row,
    sequences,
)
from jobs_admin.console.job.job_log import JobLog, read_log, replay_log
from jobs_admin.console.job.related import Neighbours, neighbours_of, related_to
from jobs_admin.console.job.snippets import snippets_of
from jobs_admin.console.users import Role
from jobs_admin.explain.event_words import progress_words
from jobs_admin.explain.log_records import recorded
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import LOGS_KEPT
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.timeline import apply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from datetime import datetime

    from starlette.responses import Response

    from jobs_admin.api.views.jobs import JobSecrets, JobView
    from jobs_admin.console.console_request import ConsoleRequest
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.states import JobState
    from trellis_jobs.model.timeline import TimelineEntry

T = TypeVar("T")

_MAX_ATTEMPTS: Final = 20
_MAX_SPANS: Final = 24
_MAX_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Moment:
    """The event as of which the page shows the job; `is_past` unless it is the newest one."""

    entry: TimelineEntry
    index: int
    is_past: bool
    previous: int | None
    next: int | None

    @property
    def job(self) -> Job | None:
        return self.entry.job


def address_of(request: ConsoleRequest) -> JobAddress:
    """Raises NotFound for names that no job can have."""
    path = request.path
    try:
        return JobAddress(path["service"], path["type"], path["id"])
    except InvalidToken as error:
        raise NotFound(str(error)) from None


async def show(request: ConsoleRequest) -> Response:
    address = address_of(request)
    position = number_in(request.query, "at")
    if position is not None:
        return await _to_event(request, address, position)
    return await _page(request, address, None)


async def change(request: ConsoleRequest) -> Response:
    """Carry out an action. Revealed secrets are in the reply alone, not under any address."""
    address, form = address_of(request), await request.form()
    if form.get("action") == "reveal":
        client = request.client(Role.SECRETS)
        reason = form.get("reason", "").strip()
        if not reason:
            raise Invalid("say why the secrets are needed: the audit records it")
        secrets = await client.secrets(address, reason=reason)
        return await _page(request, address, secrets)
    await carry_out(request.client(Role.OPERATOR), address, form, request.console.now())
    return request.redirect(request.request.url.path)


async def _to_event(request: ConsoleRequest, address: JobAddress, position: int) -> Response:
    """The slider of a browser without scripts sends the number of an event, counted from 1."""
    part = await read_log(request.job_reads, address)
    at = min(max(position, 1), len(part.entries)) - 1
    return request.redirect(f"{request.request.url.path}?seq={part.entries[at].seq}")


async def _page(
    request: ConsoleRequest, address: JobAddress, secrets: JobSecrets | None
) -> Response:
    reads, now, least = request.job_reads, request.console.now(), request.min_seq
    part, view, explanation = await asyncio.gather(
        read_log(reads, address, min_seq=least),
        if_known(reads.get(address, min_seq=least)),
        if_known(reads.explain(address, min_seq=least)),
    )
    log = replay_log(part, now)
    moment, newest = await _moment(request, address, log), log.job
    state = _state(log, view, moment)
    related, neighbours, events = await asyncio.gather(
        related_to(newest, reads) if newest else _nothing(()),
        neighbours_of(newest, reads) if newest else _nothing(Neighbours(None, None)),
        _events(request, address, log),
    )
    attempts = _attempts(log, view, moment)
    return request.render(
        "job.html",
        topics=f"job:{address.service}/{address.job_type}/{address.job_id}",
        address=address,
        base=request.request.url.path,
        log=log,
        newest=newest,
        state=state,
        job=moment.job,
        moment=moment,
        row=event_row(moment.entry),
        sequences=sequences(log.history),
        explanation=None if moment.is_past else explanation,
        progress=_progress(moment, view),
        attempts=attempts[-_MAX_ATTEMPTS:][::-1],
        attempt_count=len(attempts),
        events=events,
        with_notes="notes" in request.query,
        related=related,
        neighbours=neighbours,
        actions=() if moment.is_past else actions_in(state),
        snippets=snippets_of(newest) if newest else None,
        omitted=view.omitted if view else (),
        lines_kept=LOGS_KEPT if view and len(view.logs) >= LOGS_KEPT else None,
        **_runs(log, moment, now),
        **_contents(moment.job, secrets),
    )


def _state(log: JobLog, view: JobView | None, moment: Moment) -> JobState | None:
    """The state that the page shows. Of a log that is cut, only the projection knows the newest."""
    if log.part.is_cut and view is not None and not moment.is_past:
        return view.state
    return moment.job.state if moment.job else None


def _runs(log: JobLog, moment: Moment, now: datetime) -> dict[str, Any]:
    return {
        "chart": gantt(log.spans, now, at=moment.entry.at if moment.is_past else None),
        "spans": [(each, span_words(each, now)) for each in log.spans[-_MAX_SPANS:]],
    }


def _contents(job: Job | None, secrets: JobSecrets | None) -> dict[str, Any]:
    """Payload and result; if they were revealed, as in the log."""
    if job is None:
        return {"payload": None, "result": None, "is_revealed": False, "may_reveal": False}
    run = job.run
    if secrets is not None:
        payload, result = content_of(secrets.payload), content_of(secrets.result)
    else:
        payload = content_of(run.payload, run.secrets)
        result = content_of(run.result, run.result_secrets)
    return {
        "payload": payload,
        "result": result if run.result is not None else None,
        "is_revealed": secrets is not None,
        "may_reveal": bool(payload.hidden or result.hidden),
    }


async def _moment(request: ConsoleRequest, address: JobAddress, log: JobLog) -> Moment:
    """Raises NotFound if there is nothing in the log."""
    if not log.history:
        raise NotFound(f"the log has nothing about job {address.job_id}")
    sequence = number_in(request.query, "seq")
    index = log.index_at(sequence)
    entry = log.history[index]
    known = sequences(log.history)
    is_past = sequence is not None and sequence < known[-1]
    if is_past and sequence != entry.record.sequence and not log.part.is_whole:
        entry = await _note_at(request, address, entry, sequence or 0)
    return Moment(
        entry,
        index,
        is_past,
        known[index - 1] if index else None,
        known[index + 1] if index + 1 < len(known) else None,
    )


async def _note_at(
    request: ConsoleRequest, address: JobAddress, before: TimelineEntry, sequence: int
) -> TimelineEntry:
    """Of a job with very many notes only the state changes are read, and then this note."""
    page = await request.job_reads.list_events(address, after_seq=sequence - 1, limit=1)
    if not page.entries or page.entries[0].seq != sequence:
        return before
    return apply(before.job, recorded(page.entries)[0])


def _attempts(log: JobLog, view: JobView | None, moment: Moment) -> list[JobAttempt]:
    """Those up to the moment. A log that was read without notes has its lines from the view."""
    attempts = attempts_of(log.history[: moment.index + 1])
    if not log.part.is_whole and view is not None:
        event = moment.entry.event
        until = event.at if moment.is_past and event else None
        with_lines(
            attempts, (line for line in view.logs if until is None or line.timestamp <= until)
        )
    return attempts


def _progress(moment: Moment, view: JobView | None) -> dict[str, Any] | None:
    """The bar and its words: as of the moment, or now as the projection knows it."""
    found = moment.job.progress if moment.job else None
    if not moment.is_past and view is not None and view.progress is not None:
        found = Progress(**view.progress.model_dump())
    if found is None:
        return None
    return {"current": found.current, "total": found.total, "words": progress_words(found)}


async def _events(request: ConsoleRequest, address: JobAddress, log: JobLog) -> EventPage:
    after, with_notes = number_in(request.query, "after") or 0, "notes" in request.query
    if log.part.is_whole or not with_notes:
        return event_page(log.history, after=after, with_notes=with_notes)
    page = await request.job_reads.list_events(address, after_seq=after, limit=PAGE_SIZE)
    before = [entry for entry in log.history if entry.record.sequence <= after]
    known = before[-1].job if before else None
    rows = []
    for record in recorded(page.entries):
        entry = apply(known, record)
        known = entry.job
        rows.append(event_row(entry))
    has_more = page.count > len(page.entries)
    return EventPage(tuple(rows), rows[-1].sequence if rows and has_more else None)


def number_in(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


async def if_known(answer: Awaitable[T]) -> T | None:
    """None if the admin runtime refuses, because the log may have what the projection has not."""
    try:
        return await answer
    except RequestFailed:
        return None


async def _nothing(value: T) -> T:
    return value
