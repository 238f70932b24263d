"""`trellis-jobs keys release`."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.confirm import Yes, confirm, require_terminal_or_yes
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.keys.get import show_key
from jobs_admin.cli.keys.names import KeyName, parse_key
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.run import run


def release(
    output: Output,
    options: AdminConnectionOptions,
    names: Annotated[
        list[str],
        typer.Argument(metavar="SERVICE/TYPE KEY JOB_ID", help="Or SERVICE TYPE KEY JOB_ID."),
    ],
    reason: Reason = None,
    by: By = None,
    yes: Yes = False,
) -> None:
    """Release the key of a job whose lease has expired, so that the next waiting job gets it.

    A running job renews its lease and keeps its key; cancel the job to stop it. The key of a job
    whose worker was declared dead can be released at once: make sure first that the process is
    gone, because one that is only cut off may still run its handler.
    """
    *key_words, job_id = names
    try:
        key = parse_key(key_words)
    except UsageError:
        raise UsageError(
            "name the key and its holder: SERVICE/TYPE KEY JOB_ID, or SERVICE TYPE KEY JOB_ID"
        ) from None
    require_terminal_or_yes(yes, f"release key {key}")
    if not yes:
        confirm(f"Release key {key}, held by job {job_id}?")
    run(_release(options, key, job_id, (actor_name(by), reason), output))


async def _release(
    options: AdminConnectionOptions,
    key: KeyName,
    job_id: str,
    note: tuple[str | None, str | None],
    output: Output,
) -> None:
    by, reason = note
    async with options.admin(by=by) as admin:
        released = await admin.release_key(key.service, key.type, key.key, job_id, reason=reason)
    show_key(released, output)
