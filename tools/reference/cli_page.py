"""docs/reference/cli.md: every command, its arguments and its options, from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, get_args

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from jobs_admin.cli.app import command_line
from jobs_admin.cli.connection import ConnectionOptions

_PREFIX: Final = "TRELLIS_JOBS"
_BAR: Final = "\\|"  # a bare one would end the cell
OF_EVERY_CONNECTION: Final = frozenset(ConnectionOptions.__dataclass_fields__)
_PAGE: Final = """\
# The command line

<!-- Generated from the commands by tools/reference/cli_page.py: make docs -->

On this page you find every command with its arguments and options. A command is a noun and a verb:
`trellis-jobs jobs list`.

- `--help` works everywhere. `trellis-jobs --install-completion` installs completion for your shell.
- Tables fit the terminal. In a pipe, values are complete and there is no colour. `NO_COLOR` and
  `FORCE_COLOR` are respected.
- Text from jobs cannot control your terminal: control characters, invisible characters and those
  that change the direction of text are shown as escapes such as `\\x1b`, in JSON as `\\u001b`.
- Commands that read take `--json`: see [JSON](cli-json.md).
- Exit codes, variables and contexts of natscli are described in [exit codes](exit-codes.md), the
  settings of services, workers and the admin runtime in [settings](settings.md).

## Connection

Every command that talks to a server takes these.

| Option | Environment | |
|---|---|---|
{connection}

{commands}"""


def page() -> str:
    every = dict(commands())
    connected = next(each for each in every.values() if _is_connected(each))
    shared = {option.name: option for option in options(connected)}
    return _PAGE.format(
        connection="\n".join(
            _row(shared[name], "") for name in ConnectionOptions.__dataclass_fields__
        ),
        commands="\n\n".join(_section(name, each) for name, each in every.items()) + "\n",
    )


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Each with its full name, in the order of the help."""
    return _commands("trellis-jobs", get_command(command_line()))


def _commands(name: str, found: Any) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(found, TyperGroup):
        for member, command in found.commands.items():
            yield from _commands(f"{name} {member}", command)
    else:
        yield name, found


def _section(name: str, command: TyperCommand) -> str:
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    needed = [f"{each.opts[0]} {_value(each)}" for each in options(command) if each.required]
    usage = " ".join([name, *(_placed(each) for each in arguments), *needed])
    parts = [f"## `{usage}`", inspect.cleandoc(command.help or "")]
    told = [f"- `{_placed(each)}`: {each.help}" for each in arguments if each.help]
    parts += ["\n".join(told)] if told else []
    of_others = OF_EVERY_CONNECTION if _is_connected(command) else ()
    own = [each for each in options(command) if each.name not in of_others]
    if own:
        rows = "\n".join(_row(each, name) for each in own)
        parts.append(f"| Option | Environment | |\n|---|---|---|\n{rows}")
    if _is_connected(command):
        parts.append("And those of a [connection](#connection).")
    return "\n\n".join(parts)


def _is_connected(command: TyperCommand) -> bool:
    return {each.name for each in command.params} >= OF_EVERY_CONNECTION


def options(command: TyperCommand) -> list[TyperOption]:
    return [
        each for each in command.params if isinstance(each, TyperOption) and each.name != "help"
    ]


def _placed(argument: TyperArgument) -> str:
    shown = (argument.metavar or argument.name or "").upper()
    several = "..." if argument.nargs == -1 else ""
    return f"{shown}{several}" if argument.required else f"[{shown}{several}]"


def _row(option: TyperOption, command: str) -> str:
    told = " ".join(part for part in (option.help or "", _default(option)) if part)
    cells = (f"`{flag(option)}`", f"`{variable(option, command)}`", told)
    return table_row(*cells)


def table_row(*cells: str) -> str:
    """A table takes no bare bars."""
    return f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |"


def flag(option: TyperOption) -> str:
    names = "/".join((*option.opts, *option.secondary_opts))
    return names if _type(option) is bool else f"{names} {_value(option)}"


def variable(option: TyperOption, command: str) -> str:
    """Its own, or the one that every option has, by its command."""
    words = command.removeprefix("trellis-jobs ").split()
    twin = "_".join([_PREFIX, *words, option.name or ""]).replace("-", "_").upper()
    return str(option.envvar or twin)


def _type(option: TyperOption) -> Any:
    """The type of an option, or of the items of a list."""
    annotation = option.type_descriptor.annotation
    return (get_args(annotation) or (annotation,))[0]


def _value(option: TyperOption) -> str:
    if option.metavar:
        return option.metavar
    of = _type(option)
    if issubclass(of, Enum):
        return "|".join(str(member.value) for member in of)
    return "NUMBER" if issubclass(of, int | float) else "TEXT"


def _default(option: TyperOption) -> str:
    told = default(option)
    return f"Default: `{told}`." if told else ""


def default(option: TyperOption) -> str:
    """Nothing where it is told in words, or where there is none."""
    given = option.default
    if _type(option) is bool or given in (None, ()) or callable(given):
        return ""
    return str(given.value if isinstance(given, Enum) else given)
