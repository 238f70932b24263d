"""Reads keys from the projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.keys import BusyKeyView
from jobs_admin.reads.job_filter import Conditions, shared_conditions

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.model.keys.state import KeyState

# For a key with a million jobs, the newest ones are enough.
_NEWEST: Final = 1_000
_OF_KEY: Final = "FROM jobs_projection WHERE key = ? AND service = ? AND type = ?"


async def hashes(readers: Readers, service: str, job_type: str, key: str) -> list[str]:
    """Return all matching hashes, because different keys may have the same text, such as `a:b`."""
    query = (
        f"SELECT DISTINCT key_hash FROM (SELECT key_hash {_OF_KEY} "  # noqa: S608 - our own words
        "ORDER BY created_at DESC, id DESC LIMIT ?) ORDER BY key_hash"
    )
    rows = await readers.rows(query, (key, service, job_type, _NEWEST))
    return [key_hash for (key_hash,) in rows]


async def latest_policy_reason(readers: Readers, key: KeyState) -> str | None:
    """Why one of the key's newest jobs was admitted although the key was full.

    Our own producers record only `replace-oldest`; rejected and coalesced jobs have no event.
    """
    query = (
        "SELECT reason FROM (SELECT json_extract(document, '$.queuePolicy.reason') AS reason "  # noqa: S608
        f"{_OF_KEY} AND key_hash = ? ORDER BY created_at DESC, id DESC LIMIT ?) "
        "WHERE reason IS NOT NULL LIMIT 1"
    )
    address = key.address
    named = (key.display, address.service, address.job_type, address.hash)
    row = await readers.row(query, (*named, _NEWEST))
    return None if row is None else str(row[0])


def busy_query(of: Conditions) -> str:
    """The query of a page, without the values of its limit and offset."""
    # Without the plus SQLite treats the columns as constants, and sorts instead of using the index.
    followed = Conditions(tuple(f"+{part}" for part in of.parts))
    return (
        "SELECT service, type, key, key_hash, active, waiting "  # noqa: S608 - only marks
        f"FROM key_counts INDEXED BY keys_by_waiters{followed.where} "
        "ORDER BY waiting DESC, active DESC, service, type, key, key_hash LIMIT ? OFFSET ?"
    )


async def busy(
    readers: Readers,
    *,
    service: str | None = None,
    job_type: str | None = None,
    offset: int,
    limit: int,
) -> Page[BusyKeyView]:
    """Keys with live jobs, those for which the most jobs wait first."""
    of = shared_conditions(JobFilter(service=service, type=job_type))
    async with readers.snapshot() as database:
        rows = await database.execute_fetchall(busy_query(of), (*of.values, limit, offset))
        count = f"SELECT count(*) FROM key_counts{of.where}"  # noqa: S608 - only marks
        [(keys,)] = await database.execute_fetchall(count, of.values)
    entries = [
        {
            "service": of_service,
            "type": of_type,
            "key": key,
            "key_hash": key_hash,
            "active": active,
            "waiting": waiting,
        }
        for of_service, of_type, key, key_hash, active, waiting in rows
    ]
    return Page[BusyKeyView].of(entries, count=keys, offset=offset, limit=limit)
