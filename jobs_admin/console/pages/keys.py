"""Keys that jobs hold or wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from jobs_admin.console.leases import lease_of
from jobs_admin.console.live import EVERYTHING, SLOWLY

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest

_PAGE: Final = 50
_MAX_QUEUES: Final = 500


async def show(request: ConsoleRequest) -> Response:
    service, job_type = request.query.get("service") or None, request.query.get("type") or None
    reads = request.reads
    page, queues = await asyncio.gather(
        reads.list_keys(
            service=service,
            type=job_type,
            limit=_PAGE,
            offset=request.offset,
            min_seq=request.min_seq,
        ),
        reads.list_queues(limit=_MAX_QUEUES),
    )
    return request.render(
        "keys.html",
        topics=f"{EVERYTHING} {SLOWLY}",
        page=page,
        queues=queues.entries,
        service=service,
        type=job_type,
        lease_of=lease_of,
    )
