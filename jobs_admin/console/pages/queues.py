"""All queues: how much waits in each, who works on it, and whether it is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.console.live import EVERYTHING, SLOWLY
from jobs_admin.console.queue_rows import queue_rows

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest

_PAGE: Final = 100


async def show(request: ConsoleRequest) -> Response:
    service = request.query.get("service") or None
    page = await request.reads.list_queues(
        service=service,
        with_ended="ended" in request.query,
        limit=_PAGE,
        offset=request.offset,
        min_seq=request.min_seq,
    )
    rows = queue_rows(page.entries, None)
    topics = f"{EVERYTHING} {SLOWLY}"
    return request.render("queues.html", topics=topics, page=page, rows=rows, service=service)
