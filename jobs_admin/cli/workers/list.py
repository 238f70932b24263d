"""`trellis-jobs workers list`."""

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
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line, print_json, print_stderr
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
    names=("worker", "service", "heartbeat", "version", "clock", "types"),
    flexible="types",
    truncated="service",
    dropped_first=("version", "clock", "heartbeat"),
    max_widths={"version": 12},
)


def list_workers(output: Output, options: AdminConnectionOptions) -> None:
    """List the workers that sent a heartbeat in the last 90 seconds."""
    run(_list(options, output))


async def _list(options: AdminConnectionOptions, output: Output) -> None:
    async with options.connection() as connection:
        try:
            found, omitted = await _workers_from_admin(options.admin_client(connection))
        except (ServiceMissing, NoAnswer) as error:
            found, omitted = await workers_in_log(connection, utc_now()), 0
            print_stderr(f"{as_sentence(error)} Reading the heartbeats in the log instead.")
    if omitted:
        print_stderr(
            f"{count(omitted)} heartbeats are omitted: too many for a reply of the admin runtime"
        )
    if output.json:
        print_json({"workers": found})
        return
    rows = worker_table(found, output, utc_now())
    if found:
        console().print(rows)
    workers = "1 worker" if rows.row_count == 1 else f"{count(rows.row_count)} workers"
    seconds = FRESH // timedelta(seconds=1)
    console().print(f"{workers} seen in the last {seconds} s", style="dim")


async def _workers_from_admin(admin: AdminClient) -> tuple[list[WorkerView], int]:
    """The workers, and how many more were omitted from the reply."""
    services = [service async for service in admin.services()]
    found = [worker for service in services for worker in service.workers]
    return found, sum(service.omitted_workers for service in services)


async def workers_in_log(connection: Connection, now: datetime) -> list[WorkerView]:
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
    """One row per worker, which sends a heartbeat for each of its job types."""
    by_worker = groupby(sorted(found, key=_identity), key=_identity)
    rows = [_row(list(beats), output, now) for _, beats in by_worker]
    return fit_table(_COLUMNS, rows, console().width)


def _row(beats: list[WorkerView], output: Output, now: datetime) -> Row:
    return {
        "worker": beats[0].instance_id,
        "service": beats[0].service,
        "heartbeat": output.time(max(beat.timestamp for beat in beats), now),
        "version": beats[0].version or "",
        "clock": _clock(beats),
        "types": one_line(", ".join(map(_type, beats))),
    }


def _identity(worker: WorkerView) -> tuple[str, str]:
    return worker.service, worker.instance_id


def _type(worker: WorkerView) -> str:
    """The job type with its concurrency."""
    concurrency = "" if worker.concurrency is None else f" ×{worker.concurrency}"
    return f"{worker.job_type}{concurrency}"


def _clock(beats: list[WorkerView]) -> str:
    """How far the clock is ahead of (+) or behind (-) the server's; empty if it is close."""
    offsets = [beat.clock_offset_ms for beat in beats if beat.clock_offset_ms is not None]
    offset = timedelta(milliseconds=offsets[-1] if offsets else 0)
    if abs(offset) <= MIN_OFFSET:
        return ""
    return f"{'+' if offset > timedelta() else '-'}{format_duration(abs(offset))}"
