"""When a daemon joins those who answer requests."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import NotConfirmed, NotPermitted, ServiceMissing
from trellis_jobs.jetstream.client.rpc import rpc_call
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from jobs_admin.projection.projector import Projector
    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

# Most rebuilds are over so soon that nobody needs to hear of them.
_A_MOMENT: Final = 1.0
_PATIENCE: Final = 2.0
_ASKED: Final = "Jobs.Health"


async def until_of_use(connection: Connection, projector: Projector) -> None:
    """Until the projection can be read, if others answer meanwhile.

    Where nobody else does, it is better to say that the projection is being rebuilt.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_A_MOMENT):
            await projector.until_open()
            return
    if await _others_answer(connection):
        log.info("other admin runtimes answer requests until the projection of this one is rebuilt")
        await projector.until_open()


async def _others_answer(connection: Connection) -> bool:
    """False as well when the credentials are of before the admin runtime had the right to ask."""
    try:
        await rpc_call(connection, subjects.rpc(_ASKED), b"{}", timeout=_PATIENCE)
    except (ServiceMissing, NotConfirmed, NotPermitted):
        return False
    return True
