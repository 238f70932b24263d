"""Commands under one name, such as `trellis-jobs jobs`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import typer

from jobs_admin.cli.option_groups import grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """`functions` has the name of each command's function, in the order of the help.

    The function is in the module of the package that is called like its command.
    """

    package: str
    help: str
    functions: Mapping[str, str]

    def commands(self, only: str = "") -> typer.Typer:
        """The group with all its commands, or with only one: loading a command takes time."""
        app = typer.Typer(help=self.help, no_args_is_help=True, callback=_keep_group)
        for name in self.functions if only not in self.functions else (only,):
            app.command(name)(grouped(self._function(name)))
        return app

    def _function(self, command: str) -> Callable[..., None]:
        module = import_module(f"{self.package}.{command.replace('-', '_')}")
        function: Callable[..., None] = getattr(module, self.functions[command])
        return function


def _keep_group() -> None:
    """The callback keeps typer from treating a single command as the whole group."""
