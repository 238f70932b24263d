"""`trellis-jobs queues pause` and `resume`: hand out nothing, and again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from jobs_admin.cli.actor import By, person
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.durations import duration
from jobs_admin.cli.queue_contract import known_queue
from jobs_admin.cli.queue_names import QueueArgument, QueueName, queue_name
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import JsonOutput, Output, print_json, print_text, say
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from trellis_jobs.errors import InfrastructureError
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.work import queues as on_server
from trellis_jobs.jetstream.work.consumer_info import ENDLESS_PAUSE
from trellis_jobs.model.durations import format_duration


def pause_queue(
    queue: QueueArgument,
    output: Output,
    reach: ConnectionOptions,
    reason: Annotated[str, typer.Option(help="Why; shown to whoever asks why nothing runs.")],
    lasting: Annotated[
        str | None,
        typer.Option("--for", help="Ends by itself after that: 10m, 2h.", metavar="DURATION"),
    ] = None,
    by: By = None,
) -> None:
    """Let no worker begin jobs of a queue; what runs goes on, and new jobs wait."""
    length = ENDLESS_PAUSE if lasting is None else duration("--for", lasting)
    run(_pause(reach, queue_name(queue), length, (reason, person(by) or "operator"), output))


def resume_queue(queue: QueueArgument, output: JsonOutput, reach: ConnectionOptions) -> None:
    """Let workers begin its jobs again. One that is not paused stays as it is."""
    run(_resume(reach, queue_name(queue), output))


async def _pause(
    reach: ConnectionOptions,
    name: QueueName,
    length: timedelta,
    note: tuple[str, str],
    output: Output,
) -> None:
    until = datetime.now(UTC) + length
    async with reach.connection() as connection:
        features = await detect_features(connection)
        queue = await known_queue(connection, name)
        await on_server.pause(connection, features, queue, until)
        try:
            await on_server.note_pause(connection, queue, *note)
        except InfrastructureError as error:
            say(f"the queue is paused, but why could not be recorded: {error}")
    waiting = queue.consumer.pending
    if output.json:
        told = {"service": name.service, "type": name.job_type, "paused": True, "depth": waiting}
        print_json(told if length is ENDLESS_PAUSE else {**told, "pausedUntil": stamp(until)})
        return
    ends = _ends(length, until, output)
    out = count(queue.consumer.ack_pending)
    print_text(f"{name} is paused {ends}; {count(waiting)} waiting, {out} out")


def _ends(length: timedelta, until: datetime, output: Output) -> str:
    if length is ENDLESS_PAUSE:
        return "until it is resumed"
    return f"until {stamp(until)}" if output.absolute else f"for {format_duration(length)}"


async def _resume(reach: ConnectionOptions, name: QueueName, output: JsonOutput) -> None:
    async with reach.connection() as connection:
        features = await detect_features(connection)
        queue = await known_queue(connection, name)
        await on_server.resume(connection, features, queue)
    if output.json:
        print_json({"service": name.service, "type": name.job_type, "paused": False})
    elif queue.consumer.is_paused:
        print_text(f"{name} is resumed; {count(queue.consumer.pending)} waiting")
    else:
        print_text(f"{name} was not paused")
