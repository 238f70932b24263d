"""Finds the streams for alarms that exist, also of services whose code is not at hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import alarms_stream, service_of_alarms
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection

_PAGE_SIZE: Final = 1024


async def services_with_alarms(connection: Connection) -> tuple[str, ...]:
    """The services that have a stream for alarms, as far as the credentials may see them."""
    try:
        names = await _names(connection)
    except NotPermitted:
        return ()
    services = sorted(filter(None, map(service_of_alarms, names)))
    visible = await asyncio.gather(*(_is_visible(connection, each) for each in services))
    return tuple(each for each, is_shown in zip(services, visible, strict=True) if is_shown)


async def _names(connection: Connection) -> list[str]:
    found: list[str] = []
    while True:
        body = {"subject": subjects.ALL_ALARMS, "offset": len(found)}
        listed = await api.request(connection, "STREAM.NAMES", body)
        page = listed.get("streams") or []
        found += page
        if len(page) < _PAGE_SIZE or len(found) >= int(listed.get("total", 0)):
            return found


async def _is_visible(connection: Connection, service: str) -> bool:
    try:
        return await api.find(connection, f"STREAM.INFO.{alarms_stream(service)}") is not None
    except NotPermitted:
        return False
