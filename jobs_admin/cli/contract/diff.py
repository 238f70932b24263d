"""`trellis-jobs contract diff`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.contract.documents import both
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.render.columns import Columns, Row, fitting
from jobs_admin.cli.render.output import JsonOutput, console, print_json, say
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.contract.changes import ContractChange, Weight, changes, is_migration

_STYLES: Final = {Weight.UPDATE: "green", Weight.MIGRATION: "red"}
_SHORT: Final = 20
_COLUMNS: Final = Columns(
    names=("", "queue", "field", "change", "why"), elastic="why", shortened="change"
)
_WHAT: Final = "A manifest file, MODULE:SERVICE, or `server`: what its consumers carry."


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_WHAT)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=_WHAT)],
    output: JsonOutput,
    reach: ConnectionOptions,
) -> None:
    """What a new contract changes: each change an update, or a migration, and why.

    A migration may refuse, skip or double jobs that are on their way. Ends with 0 if there is
    none, with 1 if there is one: for CI.
    """
    run(_diff(reach, old, new, output))


async def _diff(reach: ConnectionOptions, old: str, new: str, output: JsonOutput) -> Exit:
    was, now = await both(reach, old, new)
    found = changes(was, now)
    if output.json:
        service, told = now["service"], [change_json(each) for each in found]
        print_json({"service": service, "migration": is_migration(found), "changes": told})
    elif found:
        console().print(change_table(found))
    else:
        say("nothing changes")
    return Exit.REFUSED if is_migration(found) else Exit.OK


def change_json(change: ContractChange) -> dict[str, Any]:
    told = {"queue": change.queue, "field": change.field, "weight": change.weight.value}
    return {**told, "why": change.why, "old": change.old, "new": change.new}


def change_table(found: Sequence[ContractChange]) -> Table:
    rows: list[Row] = [
        {
            "": Text(each.weight.value, _STYLES[each.weight]),
            "queue": each.queue or "-",
            "field": each.field or "-",
            "change": _step(each),
            "why": each.why,
        }
        for each in found
    ]
    return fitting(_COLUMNS, rows, console().width)


def _step(change: ContractChange) -> str:
    """From what to what, where that is short: schemas and whole queues are not."""
    was, now = _value(change.old), _value(change.new)
    return "" if None in (was, now) else f"{was} → {now}"


def _value(value: Any) -> str | None:
    if isinstance(value, dict):
        return None
    text = "none" if value is None else str(value)
    return text if len(text) <= _SHORT else None
