"""What is wrong now, how much there is to do, and each queue in a line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jobs_admin.console.live import EVERYTHING

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest


async def show(request: ConsoleRequest) -> Response:
    stats, queues = await asyncio.gather(request.reads.stats(), request.reads.list_queues())
    return request.render("overview.html", topics=EVERYTHING, stats=stats, queues=queues)
