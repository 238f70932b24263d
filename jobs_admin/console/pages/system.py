"""The installation: the admin runtime, its loops, the server, the streams, and ignored messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from jobs_admin.console.live import SLOWLY
from trellis_jobs.environment import own_version

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest

_IGNORED: Final = 50
# The whole examination asks the server many things, and what it finds changes slowly.
_DOCTOR_SECONDS: Final = 20.0
_LOOP: Final = "loop:"


async def show(request: ConsoleRequest) -> Response:
    reads, shared = request.reads, request.console.shared
    health, diagnosis, ignored = await asyncio.gather(
        reads.health(),
        shared.get("doctor", reads.doctor, seconds=_DOCTOR_SECONDS),
        reads.list_ignored(limit=_IGNORED, offset=request.offset),
    )
    return request.render(
        "system.html",
        topics=SLOWLY,
        health=health,
        loops=[check for check in health.checks if check.name.startswith(_LOOP)],
        diagnosis=diagnosis,
        ignored=ignored,
        console_version=own_version(),
    )
