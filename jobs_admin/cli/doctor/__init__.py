"""`trellis-jobs doctor`: check everything that jobs depend on."""

from __future__ import annotations

import asyncio
import platform
from contextlib import AsyncExitStack
from typing import Final

from rich.table import Table

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.doctor import Diagnosis, Section
from jobs_admin.api.views.queues import QueueView
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import Exit, exit_code_for
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import SystemAccount
from jobs_admin.cli.queue_contract import App
from jobs_admin.cli.queues.snapshot import take_queue_snapshot
from jobs_admin.cli.render.findings import LABELS
from jobs_admin.cli.render.output import JsonOutput, console, present_fields, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import load_service
from jobs_admin.doctor.checks import CHECK_TIMEOUT, Installation, diagnose
from jobs_admin.doctor.client_checks import ClientChecks
from jobs_admin.doctor.findings import broken, completed, diagnosis, fine
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.features import Features
from trellis_jobs.environment import own_version
from trellis_jobs.errors import InfrastructureError, JobsError
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.setup.features import detect_features, level_of

# For each of two attempts.
_ADMIN_TIMEOUT: Final = 1.0
# The admin runtime gives up each of its checks before this.
_DOCTOR_TIMEOUT: Final = CHECK_TIMEOUT + 1


def doctor(
    output: JsonOutput,
    options: ConnectionOptions,
    app: App = None,
    system_account: SystemAccount = None,
) -> None:
    """Check everything that jobs depend on, and print what to do.

    Changes nothing. If an admin runtime answers, it checks what these credentials may not
    (Jobs.Doctor). Exits with 0 if nothing needs to be done in what could be checked, with 1 if
    something needs to be done, and with 4 if no server answers.
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
    async with AsyncExitStack() as opened:
        try:
            connection = await opened.enter_async_context(options.connection())
        except InfrastructureError as error:
            _print(_unreachable(error), output)
            return exit_code_for(error)
        found = await _check(options.connect_options(), connection, declared, system_account)
    _print(found, output)
    return Exit.OK if found.ok else Exit.REFUSED


def _unreachable(error: InfrastructureError) -> Diagnosis:
    remedy = "check --nats, --context and the credentials, and that the server runs"
    lost = Section(name="connection", findings=(broken(str(error), remedy),))
    return diagnosis((_command(), lost))


async def _check(
    access: ConnectOptions,
    connection: Connection,
    declared: ServiceContract | None,
    system_account: str | None,
) -> Diagnosis:
    installation = Installation(
        access=access,
        connection=connection,
        features=await _features(connection),
        system_account=system_account,
    )

    admin = AdminClient(connection, timeout=_ADMIN_TIMEOUT)

    async def queues() -> list[QueueView]:
        return (await take_queue_snapshot(connection, admin, declared)).queues

    checks = ClientChecks(
        installation=installation,
        admin=admin,
        queues=queues,
        services=frozenset({declared.service} if declared else ()),
    )
    found = await diagnose(installation, checks.steps(), before=(_command(),))
    return await _complete(found, connection)


async def _complete(found: Diagnosis, connection: Connection) -> Diagnosis:
    """What these credentials may not check, the admin runtime checks if they may ask it to."""
    if not found.not_seen:
        return found
    admin = AdminClient(connection, timeout=_DOCTOR_TIMEOUT)
    try:
        return completed(found, await admin.doctor())
    except JobsError:
        return found


def _command() -> Section:
    version = fine(f"trellis-jobs {own_version()}, Python {platform.python_version()}")
    return Section(name="command", findings=(version,))


async def _features(connection: Connection) -> Features:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            return await detect_features(connection)
    except TimeoutError:
        return Features(connection.server_version, level_of(connection.server_version))


def _print(found: Diagnosis, output: JsonOutput) -> None:
    if output.json:
        print_json(present_fields(found))
        return
    screen = console()
    screen.print(_table(found))
    screen.print(f"\n{verdict(found)}", style="bold")
    listed = Table.grid(padding=(0, 1))
    for number, remedy in enumerate(found.to_do, start=1):
        listed.add_row(f"{number}.", Text(remedy))
    screen.print(listed)


def verdict(found: Diagnosis) -> str:
    if found.to_do:
        return "What to do:"
    if found.not_seen:
        return f"Nothing to do. Not checked for lack of permission: {', '.join(found.not_seen)}."
    return "Nothing to do."


def _table(found: Diagnosis) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for section in found.sections:
        for index, finding in enumerate(section.findings):
            title = Text(section.name if index == 0 else "", "bold")
            table.add_row(title, LABELS[finding.level], Text(finding.message))
    return table
