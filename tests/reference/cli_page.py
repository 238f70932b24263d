"""docs/reference/cli.md: every command, its arguments and its options, from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, get_args

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from trellis_jobs.cli.app import command_line
from trellis_jobs.cli.reach import Reach

_PREFIX: Final = "TRELLIS_JOBS"
_BAR: Final = "\\|"  # a table takes no bare ones
_OF_EVERY_CONNECTION: Final = frozenset(Reach.__dataclass_fields__)
_PAGE: Final = """\
# The command line

<!-- Generated from the commands by tests/reference/cli_page.py: make docs -->

First what it is about, then what to do: `trellis-jobs jobs list`. `--help` works everywhere,
`trellis-jobs --install-completion` teaches the shell. Tables fit the terminal; in a pipe values are
whole and there is no colour (`NO_COLOR` and `FORCE_COLOR` are respected). Reads take `--json`, see
[JSON](cli-json.md). How commands end, what the environment says and natscli's contexts:
[exit codes](exit-codes.md).

## Connection

Every command that talks to a server takes these.

| Option | Environment | |
|---|---|---|
{connection}

{commands}"""


def page() -> str:
    every = dict(commands())
    connected = next(each for each in every.values() if _is_connected(each))
    options = {option.name: option for option in _options(connected)}
    return _PAGE.format(
        connection="\n".join(_row(options[name], "") for name in Reach.__dataclass_fields__),
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
    needed = [f"{each.opts[0]} {_value(each)}" for each in _options(command) if each.required]
    usage = " ".join([name, *(_placed(each) for each in arguments), *needed])
    parts = [f"## `{usage}`", inspect.cleandoc(command.help or "")]
    told = [f"- `{_placed(each)}`: {each.help}" for each in arguments if each.help]
    parts += ["\n".join(told)] if told else []
    prefix = "_".join([_PREFIX, *name.upper().replace("-", "_").split()[1:]])
    prefix = prefix.replace("TRELLIS_JOBS_TRELLIS_JOBS", _PREFIX)
    of_others = _OF_EVERY_CONNECTION if _is_connected(command) else ()
    own = [each for each in _options(command) if each.name not in of_others]
    if own:
        rows = "\n".join(_row(each, prefix) for each in own)
        parts.append(f"| Option | Environment | |\n|---|---|---|\n{rows}")
    if _is_connected(command):
        parts.append("And those of a [connection](#connection).")
    return "\n\n".join(parts)


def _is_connected(command: TyperCommand) -> bool:
    return {each.name for each in command.params} >= _OF_EVERY_CONNECTION


def _options(command: TyperCommand) -> list[TyperOption]:
    return [
        each for each in command.params if isinstance(each, TyperOption) and each.name != "help"
    ]


def _placed(argument: TyperArgument) -> str:
    shown = (argument.metavar or argument.name or "").upper()
    several = "..." if argument.nargs == -1 else ""
    return f"{shown}{several}" if argument.required else f"[{shown}{several}]"


def _row(option: TyperOption, prefix: str) -> str:
    names = "/".join((*option.opts, *option.secondary_opts))
    value = "" if _type(option) is bool else f" {_value(option)}"
    variable = f"`{option.envvar}`" if option.envvar and not _is_derived(option, prefix) else ""
    told = " ".join(part for part in (option.help or "", _default(option)) if part)
    return f"| `{names}{value}` | {variable} | {told.replace('|', _BAR)} |"


def _is_derived(option: TyperOption, prefix: str) -> bool:
    return option.envvar == f"{prefix}_{(option.name or '').upper()}"


def _type(option: TyperOption) -> Any:
    """Of a list, what it is a list of."""
    annotation = option.type_descriptor.annotation
    return (get_args(annotation) or (annotation,))[0]


def _value(option: TyperOption) -> str:
    if option.metavar:
        return option.metavar
    of = _type(option)
    if issubclass(of, Enum):
        return _BAR.join(str(member.value) for member in of)
    return "NUMBER" if issubclass(of, int | float) else "TEXT"


def _default(option: TyperOption) -> str:
    default = option.default
    if _type(option) is bool or default in (None, ()) or callable(default):
        return ""
    return f"Default: {default.value if isinstance(default, Enum) else default}."
