"""The rules of `doctor` about worker processes and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.api.worker_words import directive_words, silence_words
from jobs_admin.doctor.findings import about_queue, about_worker, note, warning
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from jobs_admin.api.views.doctor import Finding
    from jobs_admin.api.views.services import WorkerView
    from jobs_admin.api.views.workers import WorkerProcessView

_SILENT: Final = "check the process and the network of the silent workers (`workers list`)"
_NO_RECORD: Final = (
    "print the permissions of the service again (`trellis-jobs permissions`) or upgrade its "
    "workers: without a record, a worker cannot be directed, and its jobs wait for their leases if "
    "it dies"
)


def check_worker_records(
    processes: Sequence[WorkerProcessView], heartbeats: Iterable[WorkerView], now: datetime
) -> list[Finding]:
    """Silent and dead workers, workers without a record, and queues whose workers are all quiet."""
    return [
        *_silent(processes, now),
        *_without_record(processes, heartbeats),
        *_quiet_queues(processes, now),
    ]


def _silent(processes: Sequence[WorkerProcessView], now: datetime) -> list[Finding]:
    found: list[Finding] = []
    for process in processes:
        words = silence_words(process, now)
        text = f"worker {process.name} of {process.service}: {words}"
        about = about_worker(process.service, process.instance_id)
        if process.silent:
            found.append(warning(text, _SILENT, about, process.last_beat_at))
        elif words is not None:
            found.append(note(text, about))
    return found


def _without_record(
    processes: Sequence[WorkerProcessView], heartbeats: Iterable[WorkerView]
) -> list[Finding]:
    """Only this library sends the digest of the contract; other runtimes keep no records."""
    known = {(each.service, each.instance_id) for each in processes}
    ours = {
        (beat.service, beat.instance_id) for beat in heartbeats if beat.contract_digest is not None
    }
    return [
        warning(
            f"worker {instance} of {service} has no record",
            _NO_RECORD,
            about_worker(service, instance),
        )
        for service, instance in sorted(ours - known)
    ]


def _quiet_queues(processes: Sequence[WorkerProcessView], now: datetime) -> list[Finding]:
    queues: dict[str, list[WorkerProcessView]] = {}
    for process in processes:
        for queue in process.queues:
            if process.takes(process.service, queue.type):
                queues.setdefault(f"{process.service}/{queue.type}", []).append(process)
    return [
        _quiet_queue(name, workers, now)
        for name, workers in sorted(queues.items())
        if all(worker.state is WorkerState.QUIET for worker in workers)
    ]


def _quiet_queue(name: str, workers: Sequence[WorkerProcessView], now: datetime) -> Finding:
    wanted = next((each.wanted for each in workers if each.wanted is not None), None)
    when = "" if wanted is None else f"{format_duration(now - wanted.at)} ago"
    why = "" if wanted is None else f" ({directive_words(wanted, when)})"
    count = "its only worker is" if len(workers) == 1 else f"all {len(workers)} workers are"
    service, _, job_type = name.partition("/")
    return warning(
        f"{name}: {count} quiet, so no job starts{why}",
        f"resume the workers when they may work: trellis-jobs workers resume --service {service}",
        about_queue(service, job_type),
        None if wanted is None else wanted.at,
    )
