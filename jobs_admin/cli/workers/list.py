"""`trellis-jobs workers list`: whose heartbeats come."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from rich.table import Table

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.services import WorkerView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import as_sentence
from jobs_admin.cli.render.columns import Columns, Row, fitting
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line, print_json, say
from jobs_admin.cli.run import run
from jobs_admin.reads.services import FRESH
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import NoAnswer, ServiceMissing
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.heartbeats import newest_heartbeats
from trellis_jobs.model.clock_offset import MIN_OFFSET
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.presence import in_milliseconds

_COLUMNS: Final = Columns(
    names=("worker", "service", "heard", "version", "clock", "types"),
    elastic="types",
    shortened="service",
    gives_way=("version", "clock", "heard"),
    cut={"version": 12},
)


def list_workers(output: Output, reach: AdminConnectionOptions) -> None:
    """Workers that were heard of within 90 seconds."""
    run(_list(reach, output))


async def _list(reach: AdminConnectionOptions, output: Output) -> None:
    async with reach.connection() as connection:
        try:
            found, omitted = await _known_to(reach.asking(connection))
        except (ServiceMissing, NoAnswer) as error:
            found, omitted = await heard_in_the_log(connection, utc_now()), 0
            say(f"{as_sentence(error)} These are the heartbeats in the log itself.")
    if omitted:
        say(
            f"{count(omitted)} heartbeats more than the admin runtime can tell at once are left out"
        )
    if output.json:
        print_json({"workers": found})
        return
    rows = worker_table(found, output, utc_now())
    if found:
        console().print(rows)
    heard = "1 worker" if rows.row_count == 1 else f"{count(rows.row_count)} workers"
    console().print(f"{heard} heard of within {format_duration(FRESH)}", style="dim")


async def _known_to(admin: AdminClient) -> tuple[list[WorkerView], int]:
    """And how many more there are."""
    services = [service async for service in admin.services()]
    found = [worker for service in services for worker in service.workers]
    return found, sum(service.omitted_workers for service in services)


async def heard_in_the_log(connection: Connection, now: datetime) -> list[WorkerView]:
    return [
        WorkerView(
            service=heard.beat.service,
            job_type=heard.beat.job_type,
            instance_id=heard.beat.instance,
            timestamp=heard.at,
            concurrency=heard.beat.concurrency,
            version=heard.beat.version,
            loop_blocked_ms=in_milliseconds(heard.beat.loop_blocked),
            contract_digest=heard.beat.contract,
            clock_offset_ms=in_milliseconds(heard.beat.clock_ahead),
        )
        for heard in await newest_heartbeats(connection)
        if heard.at >= now - FRESH
    ]


def worker_table(found: Iterable[WorkerView], output: Output, now: datetime) -> Table:
    """A worker beats for each of its types; here it is one row."""
    beats = groupby(sorted(found, key=_whose), key=_whose)
    rows = [_row(list(of_types), output, now) for _, of_types in beats]
    return fitting(_COLUMNS, rows, console().width)


def _row(of_types: list[WorkerView], output: Output, now: datetime) -> Row:
    return {
        "worker": of_types[0].instance_id,
        "service": of_types[0].service,
        "heard": output.time(max(beat.timestamp for beat in of_types), now),
        "version": of_types[0].version or "",
        "clock": _clock(of_types),
        "types": one_line(", ".join(map(_type, of_types))),
    }


def _whose(worker: WorkerView) -> tuple[str, str]:
    return worker.service, worker.instance_id


def _type(worker: WorkerView) -> str:
    """With how many of its jobs it runs at once."""
    most = "" if worker.concurrency is None else f" ×{worker.concurrency}"
    return f"{worker.job_type}{most}"


def _clock(of_types: list[WorkerView]) -> str:
    """How far its clock is ahead of the server's (+) or behind it (-); empty if that is little."""
    told = [beat.clock_offset_ms for beat in of_types if beat.clock_offset_ms is not None]
    offset = timedelta(milliseconds=told[-1] if told else 0)
    if abs(offset) <= MIN_OFFSET:
        return ""
    return f"{'+' if offset > timedelta() else '-'}{format_duration(abs(offset))}"
