"""`trellis-jobs admin due`."""

from __future__ import annotations

from pathlib import Path

from jobs_admin.cli.admin.retention_option import (
    DEFAULT_RETENTION,
    RetentionOption,
    retention_policy,
)
from jobs_admin.cli.options import Database
from jobs_admin.cli.render.counts import count, how_many
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text
from jobs_admin.cli.run import run
from jobs_admin.config import default_path
from jobs_admin.maintenance.retention.dry_run import dry_run
from jobs_admin.retention_policy import RetentionPolicy
from trellis_jobs.environment import utc_now


def due(
    output: JsonOutput, db: Database = None, retention: RetentionOption = DEFAULT_RETENTION
) -> None:
    """Show how many jobs retention would remove now. Removes nothing.

    The command counts them in the projection file; an admin runtime may keep running.
    """
    run(_due(db or default_path(), retention_policy(retention), output))


async def _due(path: Path, policy: RetentionPolicy, output: JsonOutput) -> None:
    found = await dry_run(path, policy, utc_now())
    if output.json:
        print_json({"retention": str(policy), "due": found})
        return
    print_text(f"with {policy}, retention would remove {how_many(found.total())} now")
    for state, jobs in sorted(found.items()):
        print_text(f"{state:<14} {count(jobs)}")
