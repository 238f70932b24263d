"""`trellis-jobs keys release`."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs_admin.cli.actor import By, Reason, person
from jobs_admin.cli.confirm import Yes, ask, check_askable
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Misused
from jobs_admin.cli.keys.get import show_key
from jobs_admin.cli.keys.names import KeyName, key_named
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.run import run


def release(
    output: Output,
    reach: AdminConnectionOptions,
    names: Annotated[
        list[str],
        typer.Argument(metavar="SERVICE/TYPE KEY JOB_ID", help="Or SERVICE TYPE KEY JOB_ID."),
    ],
    reason: Reason = None,
    by: By = None,
    yes: Yes = False,
) -> None:
    """Take a key from a job whose lease is renewed no more; the next one that waits gets it.

    A job that runs keeps its key: to stop it, cancel it.
    """
    *of_key, job_id = names
    try:
        key = key_named(of_key)
    except Misused:
        raise Misused(
            "say which key and whose: SERVICE/TYPE KEY JOB_ID, or SERVICE TYPE KEY JOB_ID"
        ) from None
    check_askable(yes, f"release key {key}")
    if not yes:
        ask(f"release key {key}, held by job {job_id}?")
    run(_release(reach, key, job_id, (person(by), reason), output))


async def _release(
    reach: AdminConnectionOptions,
    key: KeyName,
    job_id: str,
    who_and_why: tuple[str | None, str | None],
    output: Output,
) -> None:
    by, reason = who_and_why
    async with reach.admin(by=by) as admin:
        afterwards = await admin.release_key(key.service, key.type, key.key, job_id, reason=reason)
    show_key(afterwards, output)
