"""`trellis-jobs queues pause`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from jobs_admin.cli.actor import By, actor_name
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.durations import duration
from jobs_admin.cli.queue_contract import known_queue
from jobs_admin.cli.queue_names import QueueArgument, QueueName, parse_queue
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, print_json, print_stderr, print_text
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from trellis_jobs.errors import InfrastructureError
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.work import queues as server_queues
from trellis_jobs.jetstream.work.consumer_info import ENDLESS_PAUSE
from trellis_jobs.model.durations import format_duration


def pause(
    queue: QueueArgument,
    output: Output,
    options: ConnectionOptions,
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

    Jobs that are running continue, and new jobs wait.
    """
    length = ENDLESS_PAUSE if lasting is None else duration("--for", lasting)
    note = (reason, actor_name(by) or "operator")
    run(_pause(options, parse_queue(queue), length, note, output))


async def _pause(
    options: ConnectionOptions,
    name: QueueName,
    length: timedelta,
    note: tuple[str, str],
    output: Output,
) -> None:
    until = datetime.now(UTC) + length
    async with options.connection() as connection:
        features = await detect_features(connection)
        queue = await known_queue(connection, name)
        await server_queues.pause(connection, features, queue, until)
        try:
            await server_queues.note_pause(connection, queue, *note)
        except InfrastructureError as error:
            print_stderr(f"The queue is paused, but the reason could not be recorded: {error}")
    waiting = queue.consumer.pending
    if output.json:
        body = {"service": name.service, "type": name.job_type, "paused": True, "depth": waiting}
        print_json(body if length is ENDLESS_PAUSE else {**body, "pausedUntil": stamp(until)})
        return
    print_text(
        f"{name} is paused {_ends(length, until, output)}; {count(waiting)} waiting, "
        f"{count(queue.consumer.ack_pending)} in progress"
    )


def _ends(length: timedelta, until: datetime, output: Output) -> str:
    if length is ENDLESS_PAUSE:
        return "until it is resumed"
    return f"until {stamp(until)}" if output.absolute else f"for {format_duration(length)}"
