"""How long jobs waited for their start, by the log."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import quantiles

from trellis_jobs.model import events as e
from trellis_jobs.model.job import Entry


def pickups(entries: Iterable[Entry], jobs: frozenset[str]) -> list[float]:
    """Seconds from `created` to the first `started`, of these jobs."""
    created: dict[str, float] = {}
    waited: dict[str, float] = {}
    for entry in entries:
        job_id = entry.event.job.job_id
        if job_id not in jobs:
            continue
        if isinstance(entry.event, e.Created):
            created[job_id] = entry.event.at.timestamp()
        elif isinstance(entry.event, e.Started) and job_id not in waited:
            waited[job_id] = entry.event.at.timestamp() - created[job_id]
    return sorted(waited.values())


def percentile(waited: list[float], percent: int) -> float:
    return quantiles(waited, n=100, method="inclusive")[percent - 1]
