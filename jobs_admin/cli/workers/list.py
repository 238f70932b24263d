"""`trellis-jobs workers list`."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.services import WorkerView
from jobs_admin.api.views.workers import WorkerProcessView
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import as_sentence
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, present_fields, print_json, print_stderr
from jobs_admin.cli.run import run
from jobs_admin.cli.workers.control import WorkerControl
from jobs_admin.cli.workers.selection import WorkerFilterOptions
from jobs_admin.cli.workers.table import remarks, worker_table
from jobs_admin.reads.services import FRESH
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import (
    InfrastructureMissing,
    JobsError,
    NoAnswer,
    NotPermitted,
    ServiceMissing,
)
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.heartbeats import newest_heartbeats
from trellis_jobs.model.presence import in_milliseconds


def list_workers(
    selection: WorkerFilterOptions, output: Output, options: AdminConnectionOptions
) -> None:
    """List the worker processes: where they run, their state, queues and jobs.

    Workers of other runtimes, which only send heartbeats, are listed if they sent one in the last
    90 seconds. Below the table, the command lists silent and dead workers and directives.
    """
    run(_list(options, selection.query, output))


async def _list(options: AdminConnectionOptions, query: WorkerFilter, output: Output) -> None:
    async with options.connection() as connection:
        admin = options.admin_client(connection)
        beats, omitted = await _heartbeats(connection, admin)
        processes = await _processes(WorkerControl(connection, admin), query)
    if beats is None and isinstance(processes, JobsError):
        raise processes
    if isinstance(processes, JobsError):
        print_stderr(f"{as_sentence(processes)} Showing heartbeats only, without records.")
        processes = []
    if beats is None:
        print_stderr(
            "These credentials may not read heartbeats: only workers with a record follow."
        )
        beats = []
    if omitted:
        print_stderr(
            f"{count(omitted)} heartbeats are omitted: too many for a reply of the admin runtime"
        )
    shown = _matching(beats, processes, query)
    if output.json:
        print_json({"workers": shown, "processes": [present_fields(each) for each in processes]})
        return
    now = utc_now()
    rows = worker_table(processes, shown, output, now)
    if rows.row_count:
        console().print(rows)
    for remark in remarks(processes, output, now):
        console().print(remark)
    workers = "1 worker" if rows.row_count == 1 else f"{count(rows.row_count)} workers"
    seconds = FRESH // timedelta(seconds=1)
    console().print(f"{workers} registered, or seen in the last {seconds} s", style="dim")


def _matching(
    beats: list[WorkerView], processes: list[WorkerProcessView], query: WorkerFilter
) -> list[WorkerView]:
    """Of a worker without a record, only the service is known."""
    chosen = {(each.service, each.instance_id) for each in processes}
    by_service = query == WorkerFilter(service=query.service)
    return [
        beat
        for beat in beats
        if (beat.service, beat.instance_id) in chosen
        or (by_service and query.service in (None, beat.service))
    ]


async def _heartbeats(
    connection: Connection, admin: AdminClient
) -> tuple[list[WorkerView] | None, int]:
    """The heartbeats, and how many more were omitted. None if these credentials may not read."""
    try:
        try:
            return await _workers_from_admin(admin)
        except (ServiceMissing, NoAnswer) as error:
            found = await workers_in_log(connection, utc_now())
            print_stderr(f"{as_sentence(error)} Reading the heartbeats in the log instead.")
            return found, 0
    except NotPermitted:
        return None, 0


async def _processes(
    control: WorkerControl, query: WorkerFilter
) -> list[WorkerProcessView] | JobsError:
    try:
        return await control.list_workers(query)
    except (InfrastructureMissing, NotPermitted, ServiceMissing, NoAnswer) as error:
        return error


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
