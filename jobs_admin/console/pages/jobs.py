"""Jobs that match a filter, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.console.live import EVERYTHING

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest


async def show(request: ConsoleRequest) -> Response:
    page = await request.reads.list_jobs(limit=50, min_seq=request.min_seq)
    return request.render("jobs.html", topics=EVERYTHING, page=page)
