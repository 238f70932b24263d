"""`trellis-jobs queues resume`."""

from __future__ import annotations

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.queue_contract import known_queue
from jobs_admin.cli.queue_names import QueueArgument, QueueName, parse_queue
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text
from jobs_admin.cli.run import run
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.work import queues as server_queues


def resume(queue: QueueArgument, output: JsonOutput, options: ConnectionOptions) -> None:
    """Let workers start jobs of a paused queue again. Does nothing if it is not paused."""
    run(_resume(options, parse_queue(queue), output))


async def _resume(options: ConnectionOptions, name: QueueName, output: JsonOutput) -> None:
    async with options.connection() as connection:
        features = await detect_features(connection)
        queue = await known_queue(connection, name)
        await server_queues.resume(connection, features, queue)
    if output.json:
        print_json({"service": name.service, "type": name.job_type, "paused": False})
    elif queue.consumer.is_paused:
        print_text(f"{name} is resumed; {count(queue.consumer.pending)} waiting")
    else:
        print_text(f"{name} was not paused")
