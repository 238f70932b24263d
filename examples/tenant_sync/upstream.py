"""A slow upstream API that refuses two calls for a tenant at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_busy: set[str] = set()


class LockedOut(Exception):
    pass


@contextmanager
def session(tenant: str) -> Iterator[None]:
    if tenant in _busy:
        raise LockedOut(f"{tenant} is being synced already")
    _busy.add(tenant)
    try:
        yield
    finally:
        _busy.discard(tenant)


async def fetch_changes(tenant: str) -> int:
    with session(tenant):
        await asyncio.sleep(1)
        return len(tenant)


async def upload(tenant: str, version: int) -> None:
    with session(f"{tenant}'s catalog"):
        await asyncio.sleep(1)
