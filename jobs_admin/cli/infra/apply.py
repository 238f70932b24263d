"""`trellis-jobs infra apply`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from jobs_admin.cli.confirm import PANEL, Yes, confirm, require_terminal_or_yes
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.infra.comparison import (
    CHANGE_BY_HAND,
    UNCHANGED,
    Comparison,
    InfraOptions,
    NotAsNeeded,
    compare,
)
from jobs_admin.cli.render.output import JsonOutput, print_stderr
from jobs_admin.cli.run import run
from trellis_jobs.jetstream.setup.plan import Act, Change
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer


def apply(
    infra: InfraOptions,
    output: JsonOutput,
    options: ConnectionOptions,
    yes: Yes = False,
    accept_migration: Annotated[
        bool,
        typer.Option(
            "--accept-migration",
            help="Also apply a contract change that may reject, skip or repeat unfinished jobs.",
            rich_help_panel=PANEL,
        ),
    ] = False,
) -> None:
    """Create what is missing, and update what is outdated.

    The log stream gets every setting that the server supports; a server that does not support
    them cannot host it afterwards. In a cluster, upgrade every server first. The command asks for
    confirmation before it changes something that is in use. If a change would endanger jobs, or is
    a contract migration without --accept-migration, it refuses and changes nothing at all.
    """
    run(_apply(options, infra, output, yes=yes, accepts=accept_migration))


async def _apply(
    options: ConnectionOptions, infra: InfraOptions, output: JsonOutput, *, yes: bool, accepts: bool
) -> None:
    async with options.connection(reconnect=True) as connection:
        comparison = await compare(options, connection, infra)
        refusal = _refusal(comparison, accepts=accepts)
        if refusal is not None or comparison.acts == {Act.KEPT}:
            comparison.show(output)
            if refusal is not None:
                raise NotAsNeeded(f"{refusal}; {UNCHANGED}")
            return
        if Act.UPDATED in comparison.acts and not yes:
            _ask(comparison.changes)
        await provision(connection, comparison.topology)
        for consumer in comparison.consumers:
            await ensure_consumer(connection, consumer)
    comparison.show(output, done=True)


def _refusal(comparison: Comparison, *, accepts: bool) -> str | None:
    if Act.REFUSED in comparison.acts:
        return CHANGE_BY_HAND
    if comparison.is_migration and not accepts:
        return "this is a contract migration, see above: add --accept-migration to apply it"
    return None


def _ask(changes: Iterable[Change]) -> None:
    updated = [change for change in changes if change.act is Act.UPDATED]
    for change in updated:
        print_stderr(f"{change.what}: {'; '.join(change.details)}")
    require_terminal_or_yes(False, "change what is in use")
    confirm("Change what is in use?")
