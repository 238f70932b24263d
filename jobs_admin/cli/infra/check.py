"""`trellis-jobs infra check`."""

from __future__ import annotations

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.infra.comparison import (
    CHANGE_BY_HAND,
    UNCHANGED,
    InfraOptions,
    NotAsNeeded,
    compare,
)
from jobs_admin.cli.render.output import JsonOutput
from jobs_admin.cli.run import run
from trellis_jobs.jetstream.setup.plan import Act


def check(infra: InfraOptions, output: JsonOutput, options: ConnectionOptions) -> None:
    """Check that everything exists and is up to date. Exits with 1 if not. Changes nothing."""
    run(_check(options, infra, output))


async def _check(options: ConnectionOptions, infra: InfraOptions, output: JsonOutput) -> None:
    async with options.connection() as connection:
        # A deploy must not fail for settings that services can run without.
        comparison = await compare(options, connection, infra, by_operator=False)
    comparison.show(output)
    if Act.REFUSED in comparison.acts:
        raise NotAsNeeded(
            f"the server is not set up as jobs need it, and {CHANGE_BY_HAND}; {UNCHANGED}"
        )
    if comparison.acts != {Act.KEPT}:
        raise NotAsNeeded(
            f"the server is not set up as jobs need it: run `trellis-jobs infra apply`; {UNCHANGED}"
        )
