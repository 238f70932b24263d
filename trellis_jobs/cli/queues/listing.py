"""`trellis-jobs queues list`."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from trellis_jobs.cli.contracts import App
from trellis_jobs.cli.loading import load_service
from trellis_jobs.cli.queues.looking import Looked, look_at_queues
from trellis_jobs.cli.queues.rows import QueueRow
from trellis_jobs.cli.reach import Reach
from trellis_jobs.cli.running import run
from trellis_jobs.cli.showing.output import Output, console, one_line, print_json, say, table
from trellis_jobs.cli.showing.times import spell, stamp
from trellis_jobs.contract.declaration import ServiceContract


def list_all(output: Output, reach: Reach, app: App = None) -> None:
    """Every queue: what waits, what is being done, and whether its settings are as declared.

    Straight from the server; retries and rates are from the admin runtime, if one answers.
    """
    run(_list(reach, None if app is None else load_service(app).contract, output))


async def _list(reach: Reach, declared: ServiceContract | None, output: Output) -> None:
    async with reach.connection() as connection:
        looked = await look_at_queues(connection, declared)
    now = datetime.now(UTC)
    if looked.missing is not None:
        say(f"without retries and rates: {looked.missing}")
    if output.json:
        print_json({"queues": [row.to_json(now) for row in looked.rows]})
        return
    console().print(queue_table(looked, output, now))


def queue_table(looked: Looked, output: Output, now: datetime) -> Table:
    columns = ["queue", "depth", "in flight", "oldest", "asking", "ack wait"]
    if looked.stats is not None:
        columns[3:3] = ["retry"]
        columns.append("done/min")
    if any(row.queue and row.queue.consumer.delivery_limit for row in looked.rows):
        columns.append("limit")
    shown = table(*columns, "note", right=columns[1:], elastic="note")
    for row in looked.rows:
        cells = _cells(row, output, now)
        shown.add_row(*(cells[column] for column in columns), note(row, output, now))
    return shown


def _cells(row: QueueRow, output: Output, now: datetime) -> dict[str, str]:
    if row.queue is None:
        return dict.fromkeys(_COLUMNS, "") | {"queue": row.name}
    has = row.queue.consumer
    done = row.stats.per_minute.get("completed", 0.0) if row.stats else None
    return {
        "queue": row.name,
        "depth": str(has.pending),
        "in flight": str(has.unanswered),
        "retry": "" if row.retry is None else str(row.retry),
        "oldest": _age(row.oldest_at, output, now),
        "asking": str(has.asking),
        "ack wait": spell(has.ack_wait),
        "done/min": "" if done is None else f"{done:g}",
        "limit": str(has.delivery_limit or ""),
    }


_COLUMNS = ("depth", "in flight", "retry", "oldest", "asking", "ack wait", "done/min", "limit")


def note(row: QueueRow, output: Output, now: datetime) -> Text:
    """What somebody should know of it, the worst first."""
    if row.queue is not None and row.queue.consumer.is_paused:
        until = row.paused_until(now)
        ends = "until resumed" if until is None else f"until {output.time(until, now)}"
        why = f": {row.queue.paused_because}" if row.queue.paused_because else ""
        return one_line(f"paused {ends}{why}", "yellow")
    if row.is_unattended:
        return one_line("no worker asks for it", "red")
    return one_line("; ".join(row.drift), "yellow")


def _age(at: datetime | None, output: Output, now: datetime) -> str:
    if at is None:
        return ""
    return stamp(at) if output.absolute else spell(max(now - at, now - now))
