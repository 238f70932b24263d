"""`trellis-jobs keys get`, and how a key is shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.table import Table

from jobs_admin.api.views.keys import KeyView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.keys.names import KeyName, key_named
from jobs_admin.cli.render.columns import Columns, Row, fitting
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.keys.state import KEYS_BUCKET

_WAITING_SHOWN: Final = 20
_IN_ORDER: Final = "waiting, in order"
_HOLDERS: Final = Columns(
    names=("held by", "worker", "since", "heartbeat", "until"),
    elastic="worker",
    gives_way=("heartbeat", "since"),
)
_WAITING: Final = Columns(names=("", _IN_ORDER, "since"), right=("",))


def get(
    output: Output,
    reach: AdminConnectionOptions,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="SERVICE/TYPE KEY",
            help="Or SERVICE TYPE KEY. Where several keys read the same, KEY is the key's hash.",
        ),
    ],
) -> None:
    """Who holds a key until when, and who waits for it."""
    run(_get(reach, key_named(names), output))


async def _get(reach: AdminConnectionOptions, name: KeyName, output: Output) -> None:
    async with reach.admin() as admin:
        show_key(await admin.get_key(name.service, name.type, name.key), output)


def show_key(key: KeyView, output: Output) -> None:
    if output.json:
        print_json(key)
        return
    for part in told(key, output, utc_now()):
        console().print(part)


def told(key: KeyView, output: Output, now: datetime) -> Iterator[RenderableType]:
    yield _facts(key, output, now)
    yield Text()
    yield _holders(key, output, now) if key.active else Text("nobody holds it")
    if key.queued:
        yield Text()
        yield _waiting(key, output, now)
    more = len(key.queued) - _WAITING_SHOWN
    if more > 0:
        yield Text(f"… and {count(more)} more; --json tells each", "dim")


def _facts(key: KeyView, output: Output, now: datetime) -> Table:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row("key", Text(key.key))
    facts.add_row("queue", f"{key.service}/{key.type}")
    facts.add_row("hash", one_line(key.key_hash, "dim"))
    if key.bucket != KEYS_BUCKET:
        facts.add_row("bucket", one_line(key.bucket))
    at_once, at_most = "", ""
    if key.max_active:  # 0: not known
        at_once = f" of {count(key.max_active)} at once"
        at_most = f" of {count(key.max_queued_per_key)} at most"
    facts.add_row("holds", f"{count(len(key.active))}{at_once}")
    facts.add_row("waiting", f"{count(key.queued_depth)}{at_most}")
    facts.add_row(
        "takeovers", f"{count(key.stale_takeover_count)} of holders that were heard of no more"
    )
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
            "heartbeat": f"{format_duration(timedelta(milliseconds=holder.heartbeat_age_ms))} old",
            "until": Text(
                output.time(holder.lease_expires_at, now),
                "red" if holder.lease_expires_at <= now else "",
            ),
        }
        for holder in key.active
    ]
    return fitting(_HOLDERS, rows, console().width)


def _waiting(key: KeyView, output: Output, now: datetime) -> Table:
    rows: list[Row] = [
        {"": str(place), _IN_ORDER: job.job_id, "since": output.time(job.created_at, now)}
        for place, job in enumerate(key.queued[:_WAITING_SHOWN], 1)
    ]
    return fitting(_WAITING, rows, console().width)
