"""`trellis-jobs doctor`: check everything that jobs depend on."""

from __future__ import annotations

from typing import Final

from rich.table import Table

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.doctor.checks import diagnose
from jobs_admin.cli.doctor.findings import Diagnosis, Level
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import SystemAccount
from jobs_admin.cli.queue_contract import App
from jobs_admin.cli.render.output import JsonOutput, console, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import load_service
from trellis_jobs.contract.declaration import ServiceContract

_LABELS: Final = {
    Level.FINE: Text("ok", "green"),
    Level.NOTE: Text("note", "cyan"),
    Level.ATTENTION: Text("warn", "yellow"),
    Level.BROKEN: Text("broken", "bold red"),
}


def doctor(
    output: JsonOutput,
    options: ConnectionOptions,
    app: App = None,
    system_account: SystemAccount = None,
) -> None:
    """Check everything that jobs depend on, and print what to do.

    Changes nothing. Exits with 0 if nothing needs to be done in what these credentials can check,
    with 1 if something needs to be done, and with 4 if no server answers.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    declared = None if app is None else load_service(app).contract
    run(_doctor(options, declared, system_account, output))


async def _doctor(
    options: ConnectionOptions,
    declared: ServiceContract | None,
    system_account: str | None,
    output: JsonOutput,
) -> Exit:
    diagnosis = await diagnose(options.connect_options(), declared, system_account)
    if output.json:
        print_json(diagnosis.to_json())
    else:
        _show(diagnosis)
    return diagnosis.exit


def _show(diagnosis: Diagnosis) -> None:
    screen = console()
    screen.print(_table(diagnosis))
    screen.print(f"\n{diagnosis.verdict()}", style="bold")
    listed = Table.grid(padding=(0, 1))
    for number, remedy in enumerate(diagnosis.to_do(), start=1):
        listed.add_row(f"{number}.", Text(remedy))
    screen.print(listed)


def _table(diagnosis: Diagnosis) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for section in diagnosis.sections:
        for index, finding in enumerate(section.findings):
            title = Text(section.name if index == 0 else "", "bold")
            table.add_row(title, _LABELS[finding.level], Text(finding.text))
    return table
