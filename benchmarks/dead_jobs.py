"""Dead jobs of one day, each with a different error text in one of a few hundred patterns."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from benchmarks.projected_log import EVENTS_A_JOB, SERVICES, TYPES, address, died
from jobs_admin.projection.batch import Changes, JobRow
from jobs_admin.projection.rows import microseconds, minute
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from trellis_jobs.jetstream.log.feed import LogPosition
from trellis_jobs.model.job import Entry, fold

DAY: Final = timedelta(days=1)
_QUEUES: Final = SERVICES * TYPES
# One pattern in five is found in every queue, the others in one: 60 × 20 + 240 = 1,440 groups.
_SHARED, _OWN = 60, 12
_NAMES: Final = (
    "BankDown", "OSError", "TimeoutError", "ConnectionRefusedError", "HTTPError",
    "ValidationError", "PermissionDenied", "IntegrityError", "DiskFull", "KeyError",
    "UnknownCustomer", "ParseError", "RateLimited", "TemplateMissing", "SmtpRefused",
)  # fmt: skip
PLACES: Final = (
    "ledger", "warehouse", "gateway", "mailbox", "archive", "search", "billing", "printer",
    "catalogue", "session", "shipping", "identity", "payments", "reports", "tax", "storage",
    "webhook", "currency", "thumbnail", "calendar",
)  # fmt: skip


def pattern(number: int) -> int:
    """Which of the 300 patterns a job's error has."""
    turn, queue = divmod(number, _QUEUES)
    if turn % 5 == 0:
        return turn // 5 % _SHARED
    return _SHARED + queue * _OWN + turn % _OWN


def place(number: int) -> str:
    return PLACES[pattern(number) // len(_NAMES)]


def error_type(number: int) -> str:
    return _NAMES[pattern(number) % len(_NAMES)]


def message(number: int) -> str:
    """Of ten patterns six have a number, two an id, one a hexadecimal number, one a quoted name."""
    where = f"the {place(number)} service did not accept"
    kind = pattern(number) % 10
    if kind < 6:
        return f"{where} order {number} within 30 s"
    if kind < 8:
        return f"{where} job {address(number).job_id} from its queue"
    if kind == 8:
        return f"{where} checksum {number * 2654435761 % 2**32:08x} of a block"
    return f"{where} the file 'exports/{number}.csv' for reading"


async def fill(path: Path, jobs: int, begin: datetime) -> None:
    """The rows that a projector writes of a day that began then, without a log."""
    numbers = iter(range(jobs))
    async with Projection.open(path, bulk=True) as projection:
        while some := list(islice(numbers, 10_000)):
            moments = {number: begin + DAY * number / jobs for number in some}
            await projection.do(Writer.apply, _changes(moments))
        await projection.do(Writer.add_indexes)
        await projection.do(Writer.seal)


def _changes(moments: dict[int, datetime]) -> Changes:
    changes = Changes(LogPosition(sequence=EVENTS_A_JOB * (max(moments) + 1)))
    for number, at in moments.items():
        sequence = 1 + EVENTS_A_JOB * number
        events = died(number, at, error_type(number), message(number))
        job = fold([Entry(sequence + n, event) for n, event in enumerate(events)])
        assert job is not None
        last = sequence + EVENTS_A_JOB - 1
        begun_at, moved_at = microseconds(job.created_at), microseconds(job.updated_at)
        changes.jobs[job.address] = JobRow(sequence, job, last, moved_at, begun_at, moved_at)
        changes.begun.append((sequence, job))
        for event in events:
            queue = (event.job.service, event.job.job_type)
            changes.activity[minute(event.at), *queue, event.kind] += 1
    return changes
