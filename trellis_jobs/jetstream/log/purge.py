"""Removes a job from the log up to the sequence that the caller has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.identity import JobAddress


async def purge_job(connection: Connection, job: JobAddress, *, up_to: int) -> int:
    """Remove the job's events up to a sequence; later ones stay (design D24)."""
    return await purge_subject(connection, subjects.history(job), up_to=up_to)


async def purge_subject(connection: Connection, subject: str, *, up_to: int) -> int:
    """Remove the messages under a subject up to a sequence; returns how many."""
    body = {"filter": subject, "seq": up_to + 1}
    answer = await api.request(connection, f"STREAM.PURGE.{LOG}", body)
    return int(answer.get("purged", 0))


async def has_events(connection: Connection, job: JobAddress) -> bool:
    """Returns whether the log has any message under the job's subjects."""
    body = {"subjects_filter": subjects.history(job)}
    info = await api.request(connection, f"STREAM.INFO.{LOG}", body)
    return bool(info["state"].get("subjects"))
