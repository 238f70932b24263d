"""`trellis-jobs contract diff`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.contract.documents import load_both
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import JsonOutput, console, print_json, print_stderr
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.contract.change_rules import ChangeClass
from trellis_jobs.contract.changes import ContractChange, changes, is_migration
from trellis_jobs.model.durations import format_duration

_STYLES: Final = {ChangeClass.UPDATE: "green", ChangeClass.MIGRATION: "red"}
_SHORT: Final = 20
_SCHEDULE: Final = "schedules."
_COLUMNS: Final = Columns(
    names=("class", "queue", "field", "change", "reason"), flexible="reason", truncated="change"
)
_HELP: Final = "A manifest file, MODULE:SERVICE, or `server` for the contract on the server."


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_HELP)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=_HELP)],
    output: JsonOutput,
    options: ConnectionOptions,
) -> None:
    """Compare two contracts, and classify each change as an update or a migration, with the reason.

    A migration may reject, skip or repeat unfinished jobs. Exits with 1 if there is one, otherwise
    with 0, for use in CI.
    """
    run(_diff(options, old, new, output))


async def _diff(options: ConnectionOptions, old: str, new: str, output: JsonOutput) -> Exit:
    was, now = await load_both(options, old, new)
    found = changes(was, now)
    if output.json:
        service, listed = now["service"], [change_json(each) for each in found]
        print_json({"service": service, "migration": is_migration(found), "changes": listed})
    elif found:
        console().print(change_table(found))
    else:
        print_stderr("No changes.")
    return Exit.REFUSED if is_migration(found) else Exit.OK


def change_json(change: ContractChange) -> dict[str, Any]:
    return {
        "queue": change.queue,
        "field": change.field,
        "weight": change.change_class.value,
        "why": change.why,
        "old": change.old,
        "new": change.new,
    }


def change_table(found: Sequence[ContractChange]) -> Table:
    rows: list[Row] = [
        {
            "class": Text(each.change_class.value, _STYLES[each.change_class]),
            "queue": each.queue or "-",
            "field": each.field or "-",
            "change": _step(each),
            "reason": each.why,
        }
        for each in found
    ]
    return fit_table(_COLUMNS, rows, console().width)


def _step(change: ContractChange) -> str:
    """The old and the new value; empty for schemas and whole queues, which are too long."""
    old, new = change.old or {}, change.new or {}
    if change.field.startswith(_SCHEDULE) and isinstance(old, dict) and isinstance(new, dict):
        return _schedule_step(old, new)
    was, now = _value(change.old), _value(change.new)
    return "" if None in (was, now) else f"{was} → {now}"


def _schedule_step(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The old and the new timing, or the names of other fields that have changed."""
    was, now = _timing(old), _timing(new)
    if was != now:
        return f"{was} → {now}"
    return ", ".join(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))


def _timing(schedule: dict[str, Any]) -> str:
    if "cron" in schedule:
        return f"{schedule['cron']} ({schedule.get('timeZone', 'UTC')})"
    if "everyMs" in schedule:
        return f"every {format_duration(timedelta(milliseconds=schedule['everyMs']))}"
    return "none"


def _value(value: Any) -> str | None:
    if isinstance(value, dict):
        return None
    text = "none" if value is None else str(value)
    return text if len(text) <= _SHORT else None
