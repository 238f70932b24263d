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
    "trellis_jobs.scheduler",
    "trellis_jobs.service.schedules",
    "trellis_jobs.jetstream",
    "jobs_admin",
)
_ROOTS: Final = {
    package.__name__: Path(str(package.__file__)).parent for package in (trellis_jobs, jobs_admin)
}

_READS: Final = "it only reads"
_TRANSPORT: Final = "it carries what others write: they have the point"
_OPERATORS: Final = "a command of operators, in a process that neither works nor looks after jobs"
_PAUSES: Final = (
    "it pauses or resumes a queue and changes no job: an operator who gets no answer does it again"
)
_DIRECTS: Final = (
    "it writes directives, each with one guarded write, and changes no job: an operator who gets "
    "no answer does it again"
)

_SCHEDULES: Final = (
    "it reads schedules, or changes one as a service does, whose deaths at the same points the "
    "scenario making_schedules tries: an operator who gets no answer does it again"
)

_CREATES: Final = (
    "it creates a job with the producer of services, whose deaths the scenario creating tries"
)

_CONSOLE: Final = "it asks the admin runtime, which has the points, and keeps nothing itself"

# A module, or all of a package, and why a crash in it changes nothing.
OUTSIDE: Final = {
    "trellis_jobs.jetstream.setup.permission_probe": _READS,
    "trellis_jobs.jetstream.client.connect_options": _READS,
    "trellis_jobs.jetstream.client.api": _TRANSPORT,
    "trellis_jobs.jetstream.client.connection": _TRANSPORT,
    "trellis_jobs.jetstream.client.fast_client": _TRANSPORT,
    "trellis_jobs.jetstream.client.fast_parser": _TRANSPORT,
    "trellis_jobs.jetstream.client.plain_client": _TRANSPORT,
    "trellis_jobs.jetstream.client.rpc": _TRANSPORT,
    "trellis_jobs.jetstream.client.resume_after_disconnect": _READS,
    "trellis_jobs.jetstream.log.heartbeats": _READS,
    "trellis_jobs.jetstream.log.history": _READS,
    "trellis_jobs.jetstream.log.job_lookup": _READS,
    "trellis_jobs.jetstream.keys.scan": _READS,
    "trellis_jobs.jetstream.keys.read": _READS,
    "trellis_jobs.jetstream.log.feed": _READS,
    "trellis_jobs.jetstream.setup.plan": _READS,
    "trellis_jobs.jetstream.client.pull_consumer": _READS,
    "trellis_jobs.jetstream.work.consumer_info": _READS,
    "trellis_jobs.jetstream.setup.features": _READS,
    "trellis_jobs.jetstream.client.server_info": _READS,
    "trellis_jobs.jetstream.client.stream_info": _READS,
    "trellis_jobs.jetstream.work.queues": _PAUSES,
    "trellis_jobs.jetstream.client.user_keys": _OPERATORS,
    "jobs_admin.cli": _OPERATORS,
    "jobs_admin.api.client": _OPERATORS,
    "jobs_admin.api.schedule_client": _OPERATORS,
    "jobs_admin.api.creation_client": _OPERATORS,
    "jobs_admin.api.audit_client": _OPERATORS,
    "jobs_admin.api.history_client": _OPERATORS,
    "jobs_admin.audit.registry": _READS,
    "jobs_admin.console": _CONSOLE,
    "jobs_admin.creation": _CREATES,
    "jobs_admin.remembered": _READS,
    "jobs_admin.rpc.audit_methods": _READS,
    "jobs_admin.rpc.change_methods": _READS,
    "jobs_admin.rpc.doctor_methods": _READS,
    "jobs_admin.rpc.history_methods": _READS,
    "jobs_admin.rpc.queue_facts": _READS,
    "jobs_admin.rpc.suggest_methods": _READS,
    "trellis_jobs.jetstream.log.tail": _READS,
    "jobs_admin.rpc.creation_methods": _CREATES,
    "jobs_admin.rpc.schedule_methods": _SCHEDULES,
    "jobs_admin.schedules": _SCHEDULES,
    "jobs_admin.priority": "it waits, and nothing is under way meanwhile",
    "jobs_admin.health": _READS,
    "jobs_admin.doctor": _READS,
    "jobs_admin.queues.actions": _PAUSES,
    "jobs_admin.queues.declared_secrets": _READS,
    "jobs_admin.queues.read": _READS,
    "jobs_admin.rpc.queue_methods": _PAUSES,
    "jobs_admin.rpc.worker_methods": _DIRECTS,
    "jobs_admin.workers.directives": _DIRECTS,
    "jobs_admin.workers.wait": _READS,
    "jobs_admin.actions.key_buckets": _READS,
    "jobs_admin.actions.key_names": _READS,
    "jobs_admin.maintenance.occupied_keys": _READS,
    "jobs_admin.api.paging": _OPERATORS,
    "jobs_admin.api.rpc_sender": _OPERATORS,
    "jobs_admin.http.probes": _READS,
    "jobs_admin.projection.compatibility": _READS,
    "jobs_admin.projection.status": _READS,
    "jobs_admin.projection.verify": _OPERATORS,
    "jobs_admin.reads": _READS,
    "jobs_admin.maintenance.retention.dry_run": _OPERATORS,
    "jobs_admin.reads.read_your_writes": _READS,
    "jobs_admin.rpc.job_lookup": _READS,
    "jobs_admin.rpc.insight_methods": _READS,
    "jobs_admin.rpc.startup": _READS,
    "jobs_admin.rpc.service_methods": _READS,
    "trellis_jobs.jetstream.client.server_clock": _READS,
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
