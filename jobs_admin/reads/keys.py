"""Keys of the projection: which there are, and what jobs said about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

# Of a key with a million jobs the newest say enough.
_NEWEST: Final = 1_000
_OF_KEY: Final = "FROM jobs_projection WHERE key = ? AND service = ? AND type = ?"
_LIVES: Final = "state IN ('pending', 'retry', 'active')"
_BUSY: Final = (
    f"FROM jobs_projection WHERE {_LIVES} AND key IS NOT NULL "
    "AND (?1 IS NULL OR service = ?1) AND (?2 IS NULL OR type = ?2)"
)


@dataclass(frozen=True, slots=True)
class BusyKey:
    """A key with jobs that are not over: `active` run, `waiting` do not."""

    service: str
    type: str
    key: str
    key_hash: str
    active: int
    waiting: int


@dataclass(frozen=True, slots=True)
class BusyKeys:
    keys: list[BusyKey]
    count: int


async def hashes(readers: Readers, service: str, job_type: str, key: str) -> list[str]:
    """Different keys may look the same: `a:b` is one segment, or two."""
    query = (
        f"SELECT DISTINCT key_hash FROM (SELECT key_hash {_OF_KEY} "  # noqa: S608 - our own words
        "ORDER BY created_at DESC, id DESC LIMIT ?) ORDER BY key_hash"
    )
    rows = await readers.rows(query, (key, service, job_type, _NEWEST))
    return [key_hash for (key_hash,) in rows]


async def latest_policy_reason(
    readers: Readers, service: str, job_type: str, key: str
) -> str | None:
    """Why the queue's policy did something about one of the key's newest jobs."""
    query = (
        "SELECT reason FROM (SELECT json_extract(document, '$.queuePolicy.reason') AS reason "  # noqa: S608
        f"{_OF_KEY} ORDER BY created_at DESC, id DESC LIMIT ?) WHERE reason IS NOT NULL LIMIT 1"
    )
    row = await readers.row(query, (key, service, job_type, _NEWEST))
    return None if row is None else str(row[0])


async def busy(
    readers: Readers,
    *,
    service: str | None = None,
    job_type: str | None = None,
    offset: int,
    limit: int,
) -> BusyKeys:
    """Keys with jobs that are not over, those with the most of them first."""
    query = (
        "SELECT service, type, key, key_hash, sum(state = 'active'), sum(state <> 'active') "
        f"{_BUSY} GROUP BY service, type, key_hash "
        "ORDER BY count(*) DESC, service, type, key LIMIT ?3 OFFSET ?4"
    )
    rows = await readers.rows(query, (service, job_type, limit, offset))
    count = f"SELECT count(*) FROM (SELECT 1 {_BUSY} GROUP BY service, type, key_hash)"  # noqa: S608
    row = await readers.row(count, (service, job_type))
    return BusyKeys([BusyKey(*row) for row in rows], int(row[0]) if row else 0)
