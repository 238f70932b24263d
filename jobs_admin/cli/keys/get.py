"""`trellis-jobs keys get`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.table import Table

from jobs_admin.api.views.keys import KeyView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.keys.names import KeyName, parse_key
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.keys.state import KEYS_BUCKET

_WAITING_SHOWN: Final = 20
_WAITING_JOB: Final = "waiting job"
_HOLDERS: Final = Columns(
    names=("held by", "worker", "since", "heartbeat", "lease expires"),
    flexible="worker",
    dropped_first=("heartbeat", "since"),
)
_WAITING: Final = Columns(names=("", _WAITING_JOB, "since"), right=("",))


def get(
    output: Output,
    options: AdminConnectionOptions,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="SERVICE/TYPE KEY",
            help="Or SERVICE TYPE KEY. If several keys look the same, use the hash as KEY.",
        ),
    ],
) -> None:
    """Show which jobs hold a key, until when, and which jobs wait for it."""
    run(_get(options, parse_key(names), output))


async def _get(options: AdminConnectionOptions, name: KeyName, output: Output) -> None:
    async with options.admin() as admin:
        show_key(await admin.get_key(name.service, name.type, name.key), output)


def show_key(key: KeyView, output: Output) -> None:
    if output.json:
        print_json(key)
        return
    for part in render_key(key, output, utc_now()):
        console().print(part)


def render_key(key: KeyView, output: Output, now: datetime) -> Iterator[RenderableType]:
    yield _facts(key, output, now)
    yield Text()
    yield _holders(key, output, now) if key.active else Text("no job holds this key")
    if key.queued:
        yield Text()
        yield _waiting(key, output, now)
    more = len(key.queued) - _WAITING_SHOWN
    if more > 0:
        yield Text(f"… and {count(more)} more; --json lists all", "dim")


def _facts(key: KeyView, output: Output, now: datetime) -> Table:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row("key", Text(key.key))
    facts.add_row("queue", f"{key.service}/{key.type}")
    facts.add_row("hash", one_line(key.key_hash, "dim"))
    if key.bucket != KEYS_BUCKET:
        facts.add_row("bucket", one_line(key.bucket))
    max_active, max_waiting = "", ""
    if key.max_active:  # 0 means that the limits are not known
        max_active = f" (limit {count(key.max_active)})"
        max_waiting = f" (limit {count(key.max_queued_per_key)})"
    facts.add_row("holders", f"{count(len(key.active))}{max_active}")
    facts.add_row("waiting", f"{count(key.queued_depth)}{max_waiting}")
    facts.add_row("takeovers from dead holders", count(key.stale_takeover_count))
    if key.latest_policy_reason is not None:
        facts.add_row("policy", Text(key.latest_policy_reason))
    if key.updated_at is not None:
        facts.add_row("changed", output.time(key.updated_at, now))
    return facts


def _holders(key: KeyView, output: Output, now: datetime) -> Table:
    rows: list[Row] = [
        {
            "held by": holder.job_id,
            "worker": one_line(holder.instance_id),
            "since": output.time(holder.started_at, now),
            "heartbeat": f"{format_duration(timedelta(milliseconds=holder.heartbeat_age_ms))} ago",
            "lease expires": Text(
                output.time(holder.lease_expires_at, now),
                "red" if holder.lease_expires_at <= now else "",
            ),
        }
        for holder in key.active
    ]
    return fit_table(_HOLDERS, rows, console().width)


def _waiting(key: KeyView, output: Output, now: datetime) -> Table:
    rows: list[Row] = [
        {"": str(place), _WAITING_JOB: job.job_id, "since": output.time(job.created_at, now)}
        for place, job in enumerate(key.queued[:_WAITING_SHOWN], 1)
    ]
    return fit_table(_WAITING, rows, console().width)
