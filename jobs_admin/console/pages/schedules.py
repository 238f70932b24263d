"""All schedules: when they create jobs next, and what became of their last ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.console.live import EVERYTHING, SLOWLY
from jobs_admin.console.zone_words import zone_time

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest

_PAGE: Final = 100


async def show(request: ConsoleRequest) -> Response:
    service, job_type = request.query.get("service") or None, request.query.get("type") or None
    page = await request.reads.schedules.list(
        service=service, type=job_type, limit=_PAGE, offset=request.offset
    )
    return request.render(
        "schedules.html",
        topics=f"{EVERYTHING} {SLOWLY}",
        page=page,
        service=service,
        type=job_type,
        zone_time=zone_time,
    )
