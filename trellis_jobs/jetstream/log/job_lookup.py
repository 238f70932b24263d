"""Finds jobs in the log by their id alone."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.identity import JobAddress


async def jobs_with_id(connection: Connection, job_id: str) -> list[JobAddress]:
    """Returns all jobs with this id: none, or several if several queues use the same id."""
    query = {"subjects_filter": subjects.of_id(job_id)}
    info = await api.request(connection, f"STREAM.INFO.{LOG}", query)
    found = map(subjects.parse, info["state"].get("subjects") or {})
    jobs = {each.job for each in found if isinstance(each, subjects.LifecycleSubject)}
    return sorted(jobs, key=attrgetter("service", "job_type"))
