"""Whose crash points count: everything that writes, so all modules that are not named here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import jobs_admin
import trellis_jobs
from tests.crash_points.points import Site, sites_in

_PACKAGES: Final = (
    "trellis_jobs.worker",
    "trellis_jobs.producer",
    "trellis_jobs.jetstream",
    "jobs_admin",
)
_ROOTS: Final = {
    package.__name__: Path(str(package.__file__)).parent for package in (trellis_jobs, jobs_admin)
}

_READS: Final = "it only reads"
_TRANSPORT: Final = "it carries what others write: they have the point"
_OPERATORS: Final = "a command of operators, in a process that neither works nor looks after jobs"

# A module, or all of a package, and why a crash in it changes nothing.
OUTSIDE: Final = {
    "trellis_jobs.jetstream.abilities": _READS,
    "trellis_jobs.jetstream.access": _READS,
    "trellis_jobs.jetstream.api": _TRANSPORT,
    "trellis_jobs.jetstream.connection": _TRANSPORT,
    "trellis_jobs.jetstream.direct_client": _TRANSPORT,
    "trellis_jobs.jetstream.direct_parser": _TRANSPORT,
    "trellis_jobs.jetstream.requests": _TRANSPORT,
    "trellis_jobs.jetstream.outages": _READS,
    "trellis_jobs.jetstream.heartbeats": _READS,
    "trellis_jobs.jetstream.history": _READS,
    "trellis_jobs.jetstream.job_lookup": _READS,
    "trellis_jobs.jetstream.key_changes": _READS,
    "trellis_jobs.jetstream.key_reading": _READS,
    "trellis_jobs.jetstream.log_feed": _READS,
    "trellis_jobs.jetstream.planning": _READS,
    "trellis_jobs.jetstream.pulling": _READS,
    "trellis_jobs.jetstream.queue_consumers": _READS,
    "trellis_jobs.jetstream.server": _READS,
    "trellis_jobs.jetstream.server_facts": _READS,
    "trellis_jobs.jetstream.stream_facts": _READS,
    "trellis_jobs.jetstream.queues": _OPERATORS,
    "trellis_jobs.jetstream.user_keys": _OPERATORS,
    "jobs_admin.client": _OPERATORS,
    "jobs_admin.health": _READS,
    "jobs_admin.key_names": _READS,
    "jobs_admin.paging": _OPERATORS,
    "jobs_admin.probes": _READS,
    "jobs_admin.projection.fitness": _READS,
    "jobs_admin.projection.status": _READS,
    "jobs_admin.projection.verify": _OPERATORS,
    "jobs_admin.reads": _READS,
    "jobs_admin.retention.dry_run": _OPERATORS,
    "jobs_admin.rpc.catching_up": _READS,
    "jobs_admin.rpc.finding": _READS,
    "jobs_admin.rpc.insight_methods": _READS,
    "jobs_admin.rpc.joining": _READS,
    "jobs_admin.rpc.service_methods": _READS,
    "trellis_jobs.jetstream.server_clock": _READS,
}


def modules() -> Iterator[tuple[str, Path]]:
    """All that are in the packages, whether they count or not."""
    for root in _ROOTS.values():
        for path in sorted(root.rglob("*.py")):
            name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            if name.startswith(_PACKAGES):
                yield name.removesuffix(".__init__"), path


def is_outside(module: str) -> bool:
    return any(module == named or module.startswith(f"{named}.") for named in OUTSIDE)


def all_sites() -> tuple[Site, ...]:
    return tuple(
        site
        for module, path in modules()
        if not is_outside(module)
        for site in sites_in(module, path)
    )
