"""`trellis-jobs queues list`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from rich.table import Table

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.queue_contract import App
from jobs_admin.cli.queues.rows import QueueRow
from jobs_admin.cli.queues.snapshot import Looked, look_at_queues
from jobs_admin.cli.render.columns import Columns, fitting
from jobs_admin.cli.render.counts import count, rate
from jobs_admin.cli.render.output import Output, console, print_json, say
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import load_service
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.model.durations import format_duration

_COLUMNS: Final = (
    "queue",
    "depth",
    "out",
    "retry",
    "oldest",
    "asking",
    "ack wait",
    "done/min",
    "limit",
)
# On a narrow terminal these go first, so that names stay whole.
_DISPENSABLE: Final = ("limit", "ack wait", "done/min", "asking", "retry")


def list_all(output: Output, reach: ConnectionOptions, app: App = None) -> None:
    """Every queue: what waits, what workers have out, whether anybody asks for more.

    Straight from the server; retries and rates are from the admin runtime, if one answers. Below
    stand pauses, queues that nobody works on, and settings that are not as declared.
    """
    run(_list(reach, None if app is None else load_service(app).contract, output))


async def _list(reach: ConnectionOptions, declared: ServiceContract | None, output: Output) -> None:
    async with reach.connection() as connection:
        looked = await look_at_queues(connection, declared)
    now = datetime.now(UTC)
    if looked.missing is not None:
        say(f"without retries and rates: {looked.missing}")
    if output.json:
        print_json({"queues": [row.to_json(now) for row in looked.rows]})
        return
    shown = console()
    shown.print(queue_table(looked, output, now, shown.width))
    for row in looked.rows:
        for words in notes(row, output, now):
            shown.print(Text.assemble((f"{row.name}: ", "bold"), words))


def queue_table(looked: Looked, output: Output, now: datetime, room: int) -> Table:
    cells = [_cells(row, output, now) for row in looked.rows]
    told = [name for name in _COLUMNS if name == "queue" or any(each[name] for each in cells)]
    gives_way = [name for name in _DISPENSABLE if name in told]
    return fitting(Columns(names=told, gives_way=gives_way, right=told[1:]), cells, room)


def notes(row: QueueRow, output: Output, now: datetime) -> list[Text]:
    """What somebody should know of it, the worst first."""
    found = []
    if row.is_unattended:
        found.append(Text("work waits, and no worker asks for it", "red"))
    if row.queue is not None and row.queue.consumer.is_paused:
        found.append(Text(f"paused {_pause(row, output, now)}", "yellow"))
    found += [Text(difference, "yellow") for difference in row.drift]
    return found


def _cells(row: QueueRow, output: Output, now: datetime) -> dict[str, str]:
    if row.queue is None:
        return dict.fromkeys(_COLUMNS, "") | _of_jobs_alone(row, output, now)
    has = row.queue.consumer
    done = row.stats.per_minute.get("completed", 0.0) if row.stats else None
    return {
        "queue": row.name,
        "depth": count(has.pending),
        "out": count(has.ack_pending),
        "retry": "" if row.retry is None else count(row.retry),
        "oldest": _age(row.oldest_at, output, now),
        "asking": count(has.waiting_pulls),
        "ack wait": format_duration(has.ack_wait),
        "done/min": "" if done is None else rate(done),
        "limit": str(has.delivery_limit or ""),
    }


def _of_jobs_alone(row: QueueRow, output: Output, now: datetime) -> dict[str, str]:
    known = (
        {} if row.stats is None else {"depth": count(row.waiting), "retry": count(row.retry or 0)}
    )
    return {"queue": row.name, "oldest": _age(row.oldest_at, output, now), **known}


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
