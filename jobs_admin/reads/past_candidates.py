"""Jobs that may have been in a state at a past moment, by when the server stored their events.

There are two parts. Jobs that have not moved since are in the state that the projection has. The
others began before the moment and moved after it. Such intervals are found by their length: one
whose length has n bits contains the moment only if it began less than 2**n before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.views.history import PastCursor, PastPart
from jobs_admin.projection.rows import microseconds, moment_of
from trellis_jobs.model.identity import JobAddress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import aiosqlite

    from trellis_jobs.model.states import JobState

# The maximum number of bits of a length in microseconds: 35 years.
_MAX_BITS: Final = 50
_COLUMNS: Final = "job, service, type, id, last_sequence, last_stored_at"
_OF_QUEUE: Final = "(:service IS NULL OR service = :service) AND (:type IS NULL OR type = :type)"
_MOVED: Final = (
    f"SELECT * FROM (SELECT begun_at AS at, {_COLUMNS} FROM jobs_projection "  # noqa: S608
    "INDEXED BY jobs_by_span WHERE span > 0 AND span = {bits} AND begun_at > :moment - {length} "
    f"AND begun_at <= :before AND moved_at > :moment AND {_OF_QUEUE} "
    "AND (begun_at < :before OR job < :number) ORDER BY begun_at DESC, job DESC LIMIT :limit)"
)
_SAME: Final = (
    f"SELECT * FROM (SELECT moved_at AS at, {_COLUMNS} FROM jobs_projection "  # noqa: S608
    "INDEXED BY jobs_by_move WHERE state = '{state}' "
    f"AND moved_at <= :before AND {_OF_QUEUE} "
    "AND (moved_at < :before OR job < :number) ORDER BY moved_at DESC, job DESC LIMIT :limit)"
)
_NEWEST_FIRST: Final = " ORDER BY at DESC, job DESC LIMIT :limit"
_MOVED_QUERY: Final = (
    " UNION ALL ".join(
        _MOVED.format(bits=bits, length=1 << bits) for bits in range(1, _MAX_BITS + 1)
    )
    + _NEWEST_FIRST
)


@dataclass(frozen=True, slots=True)
class PastFilter:
    """Jobs at a moment, in these states, of one service, one type, both, or all."""

    at: datetime
    states: Sequence[JobState]
    service: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class PastCandidate:
    """`has_changed`: an event of it was stored after the moment, so that the log must be read."""

    cursor: PastCursor
    address: JobAddress
    last_sequence: int
    has_changed: bool

    @property
    def number(self) -> int:
        return self.cursor.first_seq


async def past_candidates(
    database: aiosqlite.Connection, wanted: PastFilter, after: PastCursor | None, limit: int
) -> list[PastCandidate]:
    """The next candidates, the newest first: those that have not moved, and then the others.

    In this order, a job that moves between two pages is found again and not missed.
    """
    found: list[PastCandidate] = []
    if after is None or after.part is PastPart.SAME:
        found = await _part(database, PastPart.SAME, wanted, after, limit)
        after = None
    if len(found) < limit:
        found += await _part(database, PastPart.MOVED, wanted, after, limit - len(found))
    return found


async def _part(
    database: aiosqlite.Connection,
    part: PastPart,
    wanted: PastFilter,
    after: PastCursor | None,
    limit: int,
) -> list[PastCandidate]:
    if not wanted.states:
        return []
    moment = microseconds(wanted.at)
    values = {
        "moment": moment,
        "service": wanted.service,
        "type": wanted.type,
        "before": microseconds(after.stored_at) if after else moment,
        "number": after.first_seq if after else 2**63 - 1,
        "limit": limit,
    }
    query = _MOVED_QUERY if part is PastPart.MOVED else _same_query(wanted.states)
    rows = await database.execute_fetchall(query, values)
    return [_candidate(part, row, moment) for row in rows]


def _same_query(states: Sequence[JobState]) -> str:
    parts = (_SAME.format(state=state.value) for state in dict.fromkeys(states))
    return " UNION ALL ".join(parts) + _NEWEST_FIRST


def _candidate(part: PastPart, row: Any, moment: int) -> PastCandidate:
    at, number, service, job_type, job_id, last_sequence, last_stored_at = row
    return PastCandidate(
        PastCursor(part=part, stored_at=moment_of(at), first_seq=number),
        JobAddress(service, job_type, job_id),
        last_sequence,
        last_stored_at > moment,
    )
