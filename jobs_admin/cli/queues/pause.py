"""`trellis-jobs queues pause`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from jobs_admin.api.inputs import MAX_PAUSE
from jobs_admin.api.views.audit import AuditVerb
from jobs_admin.api.views.queues import ChangedQueue
from jobs_admin.audit.changes import queue_change
from jobs_admin.cli.actor import By, actor_name
from jobs_admin.cli.admin_or_server import ask_admin_or_server
from jobs_admin.cli.audit.record import record_changes
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.queue_names import QueueArgument, QueueName, parse_queue
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, print_json, print_stderr, print_text
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from jobs_admin.cli.time_options import duration
from jobs_admin.queues.actions import QueueActions
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model.durations import format_duration


def pause(
    queue: QueueArgument,
    output: Output,
    options: AdminConnectionOptions,
    reason: Annotated[
        str, typer.Option(help="Why. Shown by `queues list`, `doctor` and `jobs explain`.")
    ],
    lasting: Annotated[
        str | None,
        typer.Option(
            "--for", help="Resume automatically after this time: 10m, 2h.", metavar="DURATION"
        ),
    ] = None,
    by: By = None,
) -> None:
    """Stop workers from starting jobs of a queue.

    Jobs that are running continue, and new jobs wait. The admin runtime pauses the queue if one
    answers (Jobs.PauseQueue). Otherwise the command does it itself, which needs the permission to
    pause consumers.
    """
    if not reason.strip():
        raise typer.BadParameter("say why the queue is paused", param_hint="--reason")
    length = None if lasting is None else _length(lasting)
    run(_pause(options, parse_queue(queue), length, (reason, actor_name(by)), output))


def _length(text: str) -> timedelta:
    length = duration("--for", text)
    if length > MAX_PAUSE:
        raise typer.BadParameter(
            f"{text!r} is longer than {MAX_PAUSE.days} days: without --for, the queue is paused "
            "until it is resumed",
            param_hint="--for",
        )
    return length


async def _pause(
    options: AdminConnectionOptions,
    name: QueueName,
    length: timedelta | None,
    note: tuple[str, str | None],
    output: Output,
) -> None:
    reason, by = note
    async with options.connection() as connection:

        async def directly(_: JobsError) -> ChangedQueue:
            features = await detect_features(connection)
            paused = await QueueActions(connection, features).pause(
                name.service,
                name.job_type,
                reason=reason,
                by=by or "operator",
                duration=length,
            )
            change = queue_change(AuditVerb.PAUSE, name.service, name.job_type)
            await record_changes(connection, features, [change], by=by, reason=reason)
            return paused

        admin = options.admin_client(connection, by)
        request = admin.pause_queue(name.service, name.job_type, reason=reason, duration=length)
        changed = await ask_admin_or_server(request, directly, is_change=True)
    if changed.reason_error is not None:
        print_stderr(
            f"The queue is paused, but the reason could not be recorded: {changed.reason_error}"
        )
    if output.json:
        of_queue = {"service": changed.service, "type": changed.type}
        body = {**of_queue, "paused": True, "depth": changed.depth}
        until = changed.paused_until
        print_json(body if until is None else {**body, "pausedUntil": stamp(until)})
        return
    print_text(
        f"{name} is paused {_ends(length, changed.paused_until, output)}; "
        f"{count(changed.depth)} waiting, {count(changed.in_flight)} in progress"
    )


def _ends(length: timedelta | None, until: datetime | None, output: Output) -> str:
    if length is None or until is None:
        return "until it is resumed"
    return f"until {stamp(until)}" if output.absolute else f"for {format_duration(length)}"
