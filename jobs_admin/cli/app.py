"""The list of commands, and what an error looks like on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Annotated, Final

import typer

from jobs_admin.cli.exit_codes import complain, show_defect
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.option_groups import grouped
from trellis_jobs.environment import own_version
from trellis_jobs.errors import JobsError

_VERSION: Final = "--version"
# In the order of the help: a command is a module with a function or a group of that name.
COMMANDS: Final[Mapping[str, str]] = {
    name: f"jobs_admin.cli.{name}"
    for name in (
        "worker",
        "dev",
        "services",
        "top",
        "doctor",
        "jobs",
        "dlq",
        "operations",
        "keys",
        "workers",
        "queues",
        "infra",
        "permissions",
        "credentials",
        "contract",
        "admin",
        "projection",
    )
}


def command_line(wanted: str | None = None) -> typer.Typer:
    """All commands, or the one that is wanted: to load the others takes longer than most run."""
    app = typer.Typer(
        name="trellis-jobs",
        help="Event-sourced background jobs on NATS JetStream.\n\n"
        "Something is wrong? `trellis-jobs doctor` looks at everything, and says what to do.",
        no_args_is_help=True,
        context_settings={"auto_envvar_prefix": "TRELLIS_JOBS"},
        pretty_exceptions_enable=False,
        callback=_in_common,
    )
    for name in _loaded(wanted):
        found = getattr(import_module(COMMANDS[name]), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command()(grouped(found))
    return app


def main() -> None:
    """What goes on for longer sets its logs up anew, as it was told."""
    sys.excepthook = show_defect
    set_up_logs(LogFormat.TEXT, LogLevel.WARNING)
    try:
        command_line(sys.argv[1] if len(sys.argv) > 1 else None)()
    except JobsError as error:
        sys.exit(complain(error))


def _loaded(wanted: str | None) -> Iterable[str]:
    if wanted == _VERSION:
        return ()
    return (wanted,) if wanted is not None and wanted in COMMANDS else COMMANDS


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"trellis-jobs {own_version()}")
        raise typer.Exit


def _in_common(
    _version: Annotated[
        bool,
        typer.Option(
            _VERSION,
            help="Tell the version.",
            callback=_tell_version,
            is_eager=True,
            allow_from_autoenv=False,
            show_envvar=False,
        ),
    ] = False,
) -> None:
    """With one of its own, typer does not take an only command for the whole program."""
