"""Decides when a starting daemon begins to answer requests."""

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

# Most rebuilds take less than this; then there is no need to ask for other daemons.
_SHORT_REBUILD: Final = 1.0
_SLOW_START: Final = 5.0
_FEW_MESSAGES: Final = 10_000
_HEALTH_TIMEOUT: Final = 2.0
_HEALTH_METHOD: Final = "Jobs.Health"


async def until_readable(connection: Connection, projector: Projector) -> None:
    """Wait until the projection can be read, if other daemons answer in the meantime.

    If no other daemon answers, it is better to reply that the projection is being rebuilt.
    """
    if await _is_open_soon(projector):
        return
    if await _others_answer(connection):
        log.info("rebuilding the projection; other admin runtimes answer requests until it is done")
        await projector.until_open()


async def _is_open_soon(projector: Projector) -> bool:
    """Of few messages, or none seen yet, a rebuild takes longer only if the machine is busy."""
    for timeout in (_SHORT_REBUILD, _SLOW_START):
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await projector.until_open()
                return True
        if projector.rebuilding is not None and projector.rebuilding.total > _FEW_MESSAGES:
            return False
    return False


async def _others_answer(connection: Connection) -> bool:
    """False also if the credentials are from a version that did not permit this request."""
    try:
        await rpc_call(connection, subjects.rpc(_HEALTH_METHOD), b"{}", timeout=_HEALTH_TIMEOUT)
    except (ServiceMissing, NotConfirmed, NotPermitted):
        return False
    return True
