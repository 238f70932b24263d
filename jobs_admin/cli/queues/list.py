"""`trellis-jobs queues list`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from rich.table import Table

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.queue_contract import App
from jobs_admin.cli.queues.rows import QueueRow
from jobs_admin.cli.queues.snapshot import QueueSnapshot, take_queue_snapshot
from jobs_admin.cli.render.columns import Columns, fit_table
from jobs_admin.cli.render.counts import count, rate
from jobs_admin.cli.render.output import Output, console, print_json, print_stderr
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import load_service
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.model.durations import format_duration

_COLUMNS: Final = (
    "queue",
    "waiting",
    "in progress",
    "retry",
    "oldest",
    "free slots",
    "ack wait",
    "done/min",
    "delivery limit",
)
# Dropped first on a narrow terminal, so that names are not truncated.
_DROPPED_FIRST: Final = ("delivery limit", "ack wait", "done/min", "retry", "free slots")


def list_queues(output: Output, options: ConnectionOptions, app: App = None) -> None:
    """List every queue: waiting jobs, jobs in progress, free worker slots.

    The command reads them from the server, and retries and rates from the admin runtime if one
    answers. Below the table it lists paused queues, queues without a worker, and settings that
    differ from the contract.
    """
    run(_list(options, None if app is None else load_service(app).contract, output))


async def _list(
    options: ConnectionOptions, declared: ServiceContract | None, output: Output
) -> None:
    async with options.connection() as connection:
        snapshot = await take_queue_snapshot(connection, declared)
    now = datetime.now(UTC)
    if snapshot.admin_error is not None:
        print_stderr(f"Retries and rates are not available: {snapshot.admin_error}")
    if output.json:
        print_json({"queues": [row.to_json(now) for row in snapshot.rows]})
        return
    screen = console()
    screen.print(queue_table(snapshot, output, now, screen.width))
    for row in snapshot.rows:
        for words in notes(row, output, now):
            screen.print(Text.assemble((f"{row.name}: ", "bold"), words))


def queue_table(snapshot: QueueSnapshot, output: Output, now: datetime, room: int) -> Table:
    cells = [_cells(row, output, now) for row in snapshot.rows]
    names = [name for name in _COLUMNS if name == "queue" or any(each[name] for each in cells)]
    dropped_first = [name for name in _DROPPED_FIRST if name in names]
    columns = Columns(names=names, dropped_first=dropped_first, right=names[1:])
    return fit_table(columns, cells, room)


def notes(row: QueueRow, output: Output, now: datetime) -> list[Text]:
    """Remarks about the queue, the most urgent first."""
    found = []
    if row.is_unattended:
        found.append(Text("jobs are waiting, and no worker is available", "red"))
    if row.queue is not None and row.queue.consumer.is_paused:
        found.append(Text(f"paused {_pause(row, output, now)}", "yellow"))
    found += [Text(difference, "yellow") for difference in row.drift]
    return found


def _cells(row: QueueRow, output: Output, now: datetime) -> dict[str, str]:
    if row.queue is None:
        return dict.fromkeys(_COLUMNS, "") | _cells_without_consumer(row, output, now)
    consumer = row.queue.consumer
    done = row.stats.per_minute.get("completed", 0.0) if row.stats else None
    return {
        "queue": row.name,
        "waiting": count(consumer.pending),
        "in progress": count(consumer.ack_pending),
        "retry": "" if row.retry is None else count(row.retry),
        "oldest": _age(row.oldest_at, output, now),
        "free slots": count(consumer.waiting_pulls),
        "ack wait": format_duration(consumer.ack_wait),
        "done/min": "" if done is None else rate(done),
        "delivery limit": str(consumer.delivery_limit or ""),
    }


def _cells_without_consumer(row: QueueRow, output: Output, now: datetime) -> dict[str, str]:
    cells = {"queue": row.name, "oldest": _age(row.oldest_at, output, now)}
    if row.stats is None:
        return cells
    return {**cells, "waiting": count(row.waiting), "retry": count(row.retry or 0)}


def _age(at: datetime | None, output: Output, now: datetime) -> str:
    if at is None:
        return ""
    return stamp(at) if output.absolute else format_duration(max(now - at, timedelta()))


def _pause(row: QueueRow, output: Output, now: datetime) -> str:
    until, queue = row.paused_until(now), row.queue
    if until is None:
        words = "until it is resumed"
    else:
        words = (
            f"until {stamp(until)}"
            if output.absolute
            else f"for another {format_duration(until - now)}"
        )
    if queue is not None and queue.consumer.paused_because:
        words += f": {queue.consumer.paused_because}"
    return (
        f"{words} ({queue.consumer.paused_by})"
        if queue is not None and queue.consumer.paused_by
        else words
    )
