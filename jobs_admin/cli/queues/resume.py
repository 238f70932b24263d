"""`trellis-jobs queues resume`."""

from __future__ import annotations

from jobs_admin.api.views.audit import AuditVerb
from jobs_admin.api.views.queues import ChangedQueue
from jobs_admin.audit.changes import queue_change
from jobs_admin.cli.actor import Reason, actor_name
from jobs_admin.cli.admin_or_server import ask_admin_or_server
from jobs_admin.cli.audit.record import record_changes
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.queue_names import QueueArgument, QueueName, parse_queue
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text
from jobs_admin.cli.run import run
from jobs_admin.queues.actions import QueueActions
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.setup.features import detect_features


def resume(
    queue: QueueArgument,
    output: JsonOutput,
    options: AdminConnectionOptions,
    reason: Reason = None,
) -> None:
    """Let workers start jobs of a paused queue again. Does nothing if it is not paused.

    The admin runtime resumes the queue if one answers (Jobs.ResumeQueue). Otherwise the command
    does it itself, which needs the permission to pause consumers.
    """
    run(_resume(options, parse_queue(queue), (actor_name(None), reason), output))


async def _resume(
    options: AdminConnectionOptions,
    name: QueueName,
    note: tuple[str | None, str | None],
    output: JsonOutput,
) -> None:
    by, reason = note
    async with options.connection() as connection:

        async def directly(_: JobsError) -> ChangedQueue:
            features = await detect_features(connection)
            actions = QueueActions(connection, features)
            resumed = await actions.resume(name.service, name.job_type)
            change = queue_change(AuditVerb.RESUME, name.service, name.job_type)
            await record_changes(connection, features, [change], by=by, reason=reason)
            return resumed

        admin = options.admin_client(connection, by)
        request = admin.resume_queue(name.service, name.job_type, reason=reason)
        changed = await ask_admin_or_server(request, directly, is_change=True)
    if output.json:
        print_json({"service": changed.service, "type": changed.type, "paused": False})
    elif changed.was_paused:
        print_text(f"{name} is resumed; {count(changed.depth)} waiting")
    else:
        print_text(f"{name} was not paused")
