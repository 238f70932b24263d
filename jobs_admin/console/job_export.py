"""Lists of jobs as CSV and as JSON lines, one job at a time."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from jobs_admin.api.views.jobs import JobView

COLUMNS: Final = (
    "state",
    "service",
    "type",
    "key",
    "id",
    "created",
    "changed",
    "tries",
    "maxTries",
    "error",
    "appVersion",
)
# Spreadsheets take text that begins so for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


async def csv_lines(jobs: AsyncIterator[JobView]) -> AsyncIterator[bytes]:
    yield _line(COLUMNS)
    async for job in jobs:
        yield _line(_cells(job))


async def json_lines(jobs: AsyncIterator[JobView]) -> AsyncIterator[bytes]:
    async for job in jobs:
        yield job.encode() + b"\n"


def _cells(job: JobView) -> tuple[str, ...]:
    return (
        job.state.value,
        job.service,
        job.type,
        job.concurrency.key if job.concurrency else "",
        job.id,
        _moment(job.created_at),
        _moment(job.updated_at),
        str(job.tries),
        str(job.max_tries),
        job.last_error or "",
        job.app_version or "",
    )


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _line(cells: tuple[str, ...]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow(map(_plain, cells))
    return written.getvalue().encode()


def _plain(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
