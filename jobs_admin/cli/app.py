"""The list of commands, and the entry point that turns errors into messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Annotated, Final

import typer

from jobs_admin.cli.command_group import CommandGroup
from jobs_admin.cli.exit_codes import print_traceback, report_error
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.option_groups import grouped
from trellis_jobs.environment import own_version
from trellis_jobs.errors import JobsError

_VERSION: Final = "--version"
# In the order of the help. Each command is a module with a function or a group of the same name.
COMMANDS: Final[Mapping[str, str]] = {
    name: f"jobs_admin.cli.{name}"
    for name in (
        "worker",
        "dev",
        "services",
        "top",
        "attention",
        "doctor",
        "jobs",
        "dlq",
        "operations",
        "audit",
        "keys",
        "workers",
        "queues",
        "schedules",
        "infra",
        "permissions",
        "credentials",
        "contract",
        "admin",
        "console",
        "projection",
    )
}


def command_line(*words: str) -> typer.Typer:
    """Build the application with all commands, or only with the one that the words begin with.

    Importing every command takes longer than most commands run.
    """
    app = typer.Typer(
        name="trellis-jobs",
        help="Event-sourced background jobs on NATS JetStream.\n\n"
        "Something is wrong? Run `trellis-jobs doctor`: it checks everything and says what to do.",
        no_args_is_help=True,
        context_settings={"auto_envvar_prefix": "TRELLIS_JOBS"},
        pretty_exceptions_enable=False,
        callback=_global_options,
    )
    first, second, *_ = (*words, "", "")
    for name in _names_to_load(first):
        found = getattr(import_module(COMMANDS[name]), name)
        if isinstance(found, CommandGroup):
            app.add_typer(found.commands(second), name=name)
        else:
            app.command()(grouped(found))
    return app


def main() -> None:
    """Long-running commands set up logging again, with their own options."""
    sys.excepthook = print_traceback
    set_up_logs(LogFormat.TEXT, LogLevel.WARNING)
    try:
        command_line(*sys.argv[1:])()
    except JobsError as error:
        sys.exit(report_error(error))


def _names_to_load(command: str) -> Iterable[str]:
    if command == _VERSION:
        return ()
    return (command,) if command in COMMANDS else COMMANDS


def _show_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"trellis-jobs {own_version()}")
        raise typer.Exit


def _global_options(
    _version: Annotated[
        bool,
        typer.Option(
            _VERSION,
            help="Show the version.",
            callback=_show_version,
            is_eager=True,
            allow_from_autoenv=False,
            show_envvar=False,
        ),
    ] = False,
) -> None:
    """The callback also keeps typer from treating a single command as the whole program."""
