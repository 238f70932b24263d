"""Reports the status of a projection's file without changing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiosqlite

from jobs_admin.api.errors import ProjectionUnusable
from jobs_admin.projection.compatibility import translate_sqlite_errors, why_incompatible
from jobs_admin.projection.files import FileDamaged, file_id, read_only
from jobs_admin.projection.metadata import metadata, position_in

if TYPE_CHECKING:
    from pathlib import Path

    from trellis_jobs.jetstream.log.feed import LogExtent, LogFeed

_COUNTS: Final = {
    "jobs": "SELECT coalesce(sum(jobs), 0) FROM job_counts",
    "ignoredEvents": "SELECT count(*) FROM ignored_events",
    "undecodable": "SELECT count(*) FROM undecodable_messages",
}


@dataclass(frozen=True, slots=True)
class FileStatus:
    """`unfit` is why the file cannot be continued with the log; None when it can."""

    path: Path
    unfit: str | None
    log: LogExtent
    facts: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "path": str(self.path),
            "fits": self.unfit is None,
            **self.facts,
            "lastSeq": self.log.last_sequence,
            "messages": self.log.messages,
        }
        if self.unfit is not None:
            body["reason"] = self.unfit
        elif "position" in self.facts:
            # An upper bound, because purges and expired heartbeats leave gaps.
            body["behind"] = self.log.last_sequence - self.facts["position"]
        return body


async def read_status(path: Path, feed: LogFeed) -> FileStatus:
    facts: dict[str, Any] = {}
    try:
        unfit = await why_incompatible(path, feed)
        if file_id(path) is not None:
            with translate_sqlite_errors():
                facts = await _facts(path)
    except (FileDamaged, ProjectionUnusable) as error:
        unfit = str(error)
    return FileStatus(path, unfit, await feed.extent(), facts)


async def _facts(path: Path) -> dict[str, Any]:
    """Read the facts that the file's schema has, which may be another version."""
    facts: dict[str, Any] = {}
    async with aiosqlite.connect(read_only(path), uri=True) as database:
        values = await metadata(database)
        facts["schema"], facts["position"] = (
            values.get("schema_version"),
            position_in(values).sequence,
        )
        for name, query in _COUNTS.items():
            try:
                [(count,)] = await database.execute_fetchall(query)
            except aiosqlite.OperationalError:
                continue
            facts[name] = count
    return facts
