"""`trellis-jobs queues list`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import typer
from rich.table import Table

from jobs_admin.api.views.queues import QueueView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.queue_contract import App
from jobs_admin.cli.queues.past import list_queues_at
from jobs_admin.cli.queues.snapshot import take_queue_snapshot
from jobs_admin.cli.render.columns import Columns, fit_table
from jobs_admin.cli.render.counts import count, rate
from jobs_admin.cli.render.output import Output, console, present_fields, print_json, print_stderr
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import load_service
from jobs_admin.cli.time_options import At, past_moment
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.environment import utc_now
from trellis_jobs.model.durations import format_duration

_COLUMNS: Final = (
    "queue",
    "waiting",
    "in progress",
    "retry",
    "delayed",
    "oldest",
    "free slots",
    "workers",
    "slots",
    "ack wait",
    "done/min",
    "delivery limit",
)
# Dropped first on a narrow terminal, so that names are not truncated.
_DROPPED_FIRST: Final = (
    "delivery limit",
    "ack wait",
    "done/min",
    "delayed",
    "retry",
    "slots",
    "workers",
    "free slots",
)


def list_queues(
    output: Output, options: AdminConnectionOptions, app: App = None, at: At = None
) -> None:
    """List every queue: waiting jobs, jobs in progress, free worker slots.

    The admin runtime lists them if one answers (Jobs.ListQueues). Otherwise the command reads them
    from the server, without retries and rates, which needs the permission to list consumers; so
    does --app. Below the table it lists paused queues, queues without a worker, and settings that
    differ from the contract.

    With --at it shows how many jobs each queue had in which state at that time (Jobs.StatsAt): to
    the minute for a day, to the hour for thirty days. The line below says which moment it is.
    """
    if at is not None:
        if app is not None:
            raise typer.BadParameter("it cannot be combined with --app", param_hint="--at")
        run(list_queues_at(options, past_moment(at), output))
        return
    run(_list(options, None if app is None else load_service(app).contract, output))


async def _list(
    options: AdminConnectionOptions, declared: ServiceContract | None, output: Output
) -> None:
    async with options.connection() as connection:
        snapshot = await take_queue_snapshot(connection, options.admin_client(connection), declared)
    if snapshot.admin_error is not None:
        print_stderr(f"Retries and rates are not available: {snapshot.admin_error}")
    if output.json:
        print_json({"queues": [present_fields(queue) for queue in snapshot.queues]})
        return
    screen = console()
    screen.print(queue_table(snapshot.queues, output, screen.width))
    for queue in snapshot.queues:
        for words in notes(queue, output):
            screen.print(Text.assemble((f"{queue.name}: ", "bold"), words))


def queue_table(queues: Sequence[QueueView], output: Output, width: int) -> Table:
    cells = [_cells(queue, output) for queue in queues]
    names = [name for name in _COLUMNS if name == "queue" or any(each[name] for each in cells)]
    dropped_first = [name for name in _DROPPED_FIRST if name in names]
    columns = Columns(names=names, dropped_first=dropped_first, right=names[1:])
    return fit_table(columns, cells, width)


def notes(queue: QueueView, output: Output) -> list[Text]:
    """Remarks about the queue, the most urgent first."""
    found = []
    if queue.unattended:
        found.append(Text("jobs are waiting, and no worker is available", "red"))
    if queue.quiet_workers and not queue.running_workers:
        found.append(Text("all of its workers are quiet or stopping", "yellow"))
    if queue.paused:
        found.append(Text(f"paused {_pause(queue, output)}", "yellow"))
    found += [Text(difference, "yellow") for difference in queue.drift]
    return found


def _cells(queue: QueueView, output: Output) -> dict[str, str]:
    has_waiting = queue.depth is not None or queue.states is not None
    return {
        "queue": queue.name,
        "waiting": count(queue.waiting) if has_waiting else "",
        "in progress": _count(queue.in_flight),
        "retry": "" if queue.states is None else count(queue.states.get("retry", 0)),
        "delayed": _count(queue.delayed or None),
        "oldest": _age(queue, output),
        "free slots": _count(queue.free_slots),
        "workers": _workers(queue),
        "slots": _count(queue.worker_slots),
        "ack wait": "" if queue.ack_wait_ms is None else _milliseconds(queue.ack_wait_ms),
        "done/min": _done(queue),
        "delivery limit": str(queue.delivery_limit or ""),
    }


def _count(number: int | None) -> str:
    return "" if number is None else count(number)


def _workers(queue: QueueView) -> str:
    """Workers with a record that take jobs, and how many do not."""
    if queue.running_workers is None:
        return ""
    quiet = f" ({count(queue.quiet_workers)} quiet)" if queue.quiet_workers else ""
    return f"{count(queue.running_workers)}{quiet}"


def _done(queue: QueueView) -> str:
    """Empty for a queue that never had a worker."""
    if queue.per_minute is None or queue.depth is None:
        return ""
    return rate(queue.per_minute.get("completed", 0.0))


def _age(queue: QueueView, output: Output) -> str:
    if queue.oldest_at is None or queue.oldest_age_ms is None:
        return ""
    return stamp(queue.oldest_at) if output.absolute else _milliseconds(queue.oldest_age_ms)


def _milliseconds(number: int) -> str:
    return format_duration(timedelta(milliseconds=number))


def _pause(queue: QueueView, output: Output) -> str:
    words = "until it is resumed"
    if queue.paused_until is not None:
        left = max(queue.paused_until - utc_now(), timedelta())
        words = (
            f"until {stamp(queue.paused_until)}"
            if output.absolute
            else f"for another {format_duration(left)}"
        )
    if queue.pause_reason:
        words += f": {queue.pause_reason}"
    return f"{words} ({queue.paused_by})" if queue.paused_by else words
