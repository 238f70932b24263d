"""The table of `workers list`, and the remarks below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from rich.table import Table

from jobs_admin.api.views.services import WorkerView
from jobs_admin.api.views.workers import WorkerProcessView
from jobs_admin.api.worker_words import directive_words, silence_words
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.render.text import Text
from trellis_jobs.model.clock_offset import MIN_OFFSET
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.worker_states import WorkerState

_COLUMNS: Final = Columns(
    names=(
        "worker",
        "service",
        "host/pid",
        "state",
        "jobs",
        "last beat",
        "app",
        "labels",
        "version",
        "clock",
        "queues",
    ),
    flexible="queues",
    truncated="service",
    dropped_first=("version", "clock", "labels", "app", "last beat", "jobs", "host/pid"),
    max_widths={"version": 12, "app": 12, "labels": 20, "host/pid": 24},
    right=("jobs",),
)
_STATES: Final = {
    WorkerState.RUNNING: "running",
    WorkerState.QUIET: "quiet",
    WorkerState.TERMINATE: "stopping",
    WorkerState.TERMINATED: "stopped",
}
_NO_RECORD: Final = "no record"

Identity = tuple[str, str]


def worker_table(
    processes: Iterable[WorkerProcessView],
    heartbeats: Iterable[WorkerView],
    output: Output,
    now: datetime,
) -> Table:
    """One row per worker: those with a record, and those that only send heartbeats."""
    beats = _by_worker(heartbeats)
    rows = {
        _identity(process): _process_row(process, beats.pop(_identity(process), []), output, now)
        for process in processes
    }
    rows |= {identity: _heartbeat_row(found, output, now) for identity, found in beats.items()}
    return fit_table(_COLUMNS, [rows[identity] for identity in sorted(rows)], console().width)


def remarks(
    processes: Iterable[WorkerProcessView], output: Output, now: datetime
) -> Iterator[Text]:
    """Silent and dead workers, and directives: who gave them, and why."""
    for process in processes:
        for words in (silence_words(process, now), _directive(process, output, now)):
            if words is not None:
                yield Text.assemble((f"{process.instance_id}: ", "bold"), words)


def _directive(process: WorkerProcessView, output: Output, now: datetime) -> str | None:
    if process.wanted is None or process.has_ended:
        return None
    if process.wanted.state is WorkerState.RUNNING is process.state:
        return None
    return directive_words(process.wanted, output.time(process.wanted.at, now))


def _process_row(
    process: WorkerProcessView, beats: Sequence[WorkerView], output: Output, now: datetime
) -> Row:
    queues = ", ".join(f"{queue.type} ×{queue.concurrency}" for queue in process.queues)
    return {
        "worker": process.instance_id,
        "service": process.service,
        "host/pid": process.name,
        "state": _state(process),
        "jobs": str(process.active_jobs),
        "last beat": output.time(process.last_beat_at, now),
        "app": process.app_version or "",
        "labels": ", ".join(process.labels),
        "version": process.version or "",
        "clock": _clock(beats),
        "queues": one_line(queues),
    }


def _heartbeat_row(beats: Sequence[WorkerView], output: Output, now: datetime) -> Row:
    return {
        "worker": beats[0].instance_id,
        "service": beats[0].service,
        "host/pid": "",
        "state": Text(_NO_RECORD, "dim"),
        "jobs": "",
        "last beat": output.time(max(beat.timestamp for beat in beats), now),
        "app": "",
        "labels": "",
        "version": beats[0].version or "",
        "clock": _clock(beats),
        "queues": one_line(", ".join(map(_type, beats))),
    }


def _state(process: WorkerProcessView) -> Text:
    if process.verdict is not None:
        return Text("dead", "red")
    if process.silent:
        return Text("silent", "red")
    style = "" if process.state is WorkerState.RUNNING else "yellow"
    return Text(_STATES[process.state], style)


def _by_worker(heartbeats: Iterable[WorkerView]) -> dict[Identity, list[WorkerView]]:
    """A worker sends a heartbeat for each of its job types."""
    ordered = sorted(heartbeats, key=_identity)
    return {identity: list(found) for identity, found in groupby(ordered, key=_identity)}


def _identity(worker: WorkerView | WorkerProcessView) -> Identity:
    return worker.service, worker.instance_id


def _type(worker: WorkerView) -> str:
    """The job type with its concurrency."""
    concurrency = "" if worker.concurrency is None else f" ×{worker.concurrency}"
    return f"{worker.job_type}{concurrency}"


def _clock(beats: Sequence[WorkerView]) -> str:
    """How far the clock is ahead of (+) or behind (-) the server's; empty if it is close."""
    offsets = [beat.clock_offset_ms for beat in beats if beat.clock_offset_ms is not None]
    offset = timedelta(milliseconds=offsets[-1] if offsets else 0)
    if abs(offset) <= MIN_OFFSET:
        return ""
    return f"{'+' if offset > timedelta() else '-'}{format_duration(abs(offset))}"
