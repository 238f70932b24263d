"""Jobs that match a filter, newest first, and what can be done to them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.console.job_query import ListPlace, bare_id, read_filter_text, with_state
from jobs_admin.console.live import EVERYTHING
from jobs_admin.console.users import Role
from jobs_admin.console.verbs import applicable
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.api.views.services import StatsView
    from jobs_admin.console.console_request import ConsoleRequest
    from jobs_admin.console.job_query import FilterText

PATH: Final = "/jobs"
PAGE_SIZE: Final = 50
# The fields of a filter by which Jobs.Stats counts.
_COUNTED: Final = dict.fromkeys(("state", "service", "type"))


async def show(request: ConsoleRequest) -> Response:
    text = request.query.get("q", "")
    wanted_id = bare_id(text)
    if wanted_id is not None:
        return await _find(request, wanted_id)
    written = read_filter_text(text, request.console.now())
    place = ListPlace(PATH, written.text, tuple(request.query.getlist("before")))
    query = written.filter
    stats, page = await asyncio.gather(
        _stats(request, query),
        request.reads.list_jobs(
            query or JobFilter(state=[]),
            limit=PAGE_SIZE,
            before=place.cursor,
            min_seq=request.min_seq,
        ),
    )
    return request.render(
        "jobs.html",
        topics=_topics(query, place),
        page=page,
        place=place,
        written=written,
        tabs=_tabs(written, stats),
        verbs=applicable(query.state if query else None) if request.may(Role.OPERATOR) else [],
        words=_search_words(query),
    )


async def _find(request: ConsoleRequest, wanted_id: str) -> Response:
    """Open the only job whose id begins so, or list those that there are."""
    found = await request.reads.list_jobs(JobFilter(id_prefix=wanted_id), limit=2)
    exact = [job for job in found.entries if job.id == wanted_id]
    only = found.entries if found.count == 1 else exact
    if len(only) == 1:
        [job] = only
        return request.redirect(f"{PATH}/{job.service}/{job.type}/{job.id}")
    return request.redirect(f"{PATH}?{urlencode({'q': f'id:{wanted_id}'})}")


async def _stats(request: ConsoleRequest, query: JobFilter | None) -> StatsView | None:
    """The counts per state, if only these are needed: else they would not be those of the list."""
    if query is None or query.model_copy(update=_COUNTED) != JobFilter():
        return None
    return await request.reads.stats(service=query.service, type=query.type)


def _tabs(written: FilterText, stats: StatsView | None) -> list[dict[str, object]]:
    """All states, and each one, with links that keep the other words of the filter."""
    chosen = written.filter.state if written.filter else None
    counts = {} if stats is None else stats.states
    total = None if stats is None else sum(counts.values())
    tabs: list[dict[str, object]] = [
        {"state": None, "count": total, "is_current": not chosen, "href": _href(written, None)}
    ]
    for state in JobState:
        count = None if stats is None else counts.get(state.value, 0)
        is_current = chosen == [state]
        tabs.append(
            {
                "state": state.value,
                "count": count,
                "is_current": is_current,
                "href": _href(written, state),
            }
        )
    return tabs


def _href(written: FilterText, state: JobState | None) -> str:
    text = with_state(written.text, state)
    return f"{PATH}?{urlencode({'q': text})}" if text else PATH


def _topics(query: JobFilter | None, place: ListPlace) -> str:
    """An older page does not change by new jobs, and is left alone."""
    if query is None or place.begins:
        return ""
    if query.service and query.type:
        return f"queue:{query.service}/{query.type}"
    return EVERYTHING


def _search_words(query: JobFilter | None) -> str | None:
    """What someone may have meant who searched for an id that no job has."""
    return query.id_prefix if query and query == JobFilter(id_prefix=query.id_prefix) else None
