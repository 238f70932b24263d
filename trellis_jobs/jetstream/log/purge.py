"""Taking a job out of the log, as far as somebody has read it and not further."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.identity import JobAddress


async def purge_job(connection: Connection, job: JobAddress, *, up_to: int) -> int:
    """Remove the job's events up to a sequence: what came after it stays (design D24)."""
    return await purge_subject(connection, subjects.history(job), up_to=up_to)


async def purge_subject(connection: Connection, subject: str, *, up_to: int) -> int:
    """Remove what the log has under a subject, up to a sequence."""
    body = {"filter": subject, "seq": up_to + 1}
    answer = await api.request(connection, f"STREAM.PURGE.{LOG}", body)
    return int(answer.get("purged", 0))


async def has_events(connection: Connection, job: JobAddress) -> bool:
    """Whether the log has anything of a job."""
    body = {"subjects_filter": subjects.history(job)}
    info = await api.request(connection, f"STREAM.INFO.{LOG}", body)
    return bool(info["state"].get("subjects"))
