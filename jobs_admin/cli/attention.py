"""`trellis-jobs attention`: what is wrong now, and what to do."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.table import Table

from jobs_admin.api.views.doctor import AttentionView, Finding, Level
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.render.findings import LABELS
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

_URGENT: Final = (Level.BROKEN, Level.WARNING)


def attention(output: Output, options: AdminConnectionOptions) -> None:
    """List what is wrong with jobs, queues, workers and schedules now, and what to do.

    The admin runtime finds it, as for the overview of the console. Exits with 1 if something needs
    to be done. `trellis-jobs doctor` also checks this machine, its credentials, and all that is
    fine.
    """
    run(_attention(options, output))


async def _attention(options: AdminConnectionOptions, output: Output) -> Exit:
    async with options.admin() as admin:
        found = await admin.attention()
    if output.json:
        print_json(found)
    else:
        _show(found, output)
    needs_action = any(finding.level in _URGENT for finding in found.findings)
    return Exit.REFUSED if needs_action else Exit.OK


def _show(found: AttentionView, output: Output) -> None:
    if not found.findings:
        console().print("Nothing needs attention.", style="dim")
    table, now = Table.grid(padding=(0, 2, 0, 0)), utc_now()
    for finding in found.findings:
        table.add_row(LABELS[finding.level], Text(_words(finding, output, now)))
        if finding.remedy is not None:
            table.add_row("", Text(finding.remedy, "dim"))
    console().print(table)
    if found.not_seen:
        console().print(f"Not checked for lack of permission: {', '.join(found.not_seen)}.")


def _words(finding: Finding, output: Output, now: datetime) -> str:
    since = "" if finding.since is None else f" (since {output.time(finding.since, now)})"
    return f"{finding.message}{since}"
