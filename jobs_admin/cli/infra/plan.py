"""`trellis-jobs infra plan`."""

from __future__ import annotations

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.infra.comparison import InfraOptions, compare
from jobs_admin.cli.render.output import JsonOutput
from jobs_admin.cli.run import run


def plan(infra: InfraOptions, output: JsonOutput, options: ConnectionOptions) -> None:
    """Show what `apply` would do, and why. Changes nothing."""
    run(_plan(options, infra, output))


async def _plan(options: ConnectionOptions, infra: InfraOptions, output: JsonOutput) -> None:
    async with options.connection() as connection:
        comparison = await compare(options, connection, infra)
    comparison.show(output)
