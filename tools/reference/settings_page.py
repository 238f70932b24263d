"""docs/reference/settings.md: what everybody is told from outside, with defaults and meaning."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools.reference import cli_page
from trellis_jobs import Service
from trellis_jobs.jetstream.client.connect_options import VARIABLES

_ROOT: Final = Path(__file__).parents[2]
_READ: Final = re.compile(r"environ\.get\(\"(\w+)\"\)")
_PAGE: Final = """\
# Settings

<!-- Generated from the code by tools/reference/settings_page.py: make docs -->

Each option has a variable of the environment; what the command line says comes first. Those of one
queue (tries, delays, keys, deadlines) are declared in code: [job(…)](api.md#declaring). Streams and
consumers: [subjects](subjects.md); how long jobs are kept: [retention](../operate/retention.md).

## Connection

Of every command, and of a program that connects with `ConnectOptions.from_environment()`,
which knows all of these but `--context`. Contexts of natscli, and which of these comes first:
[exit codes](exit-codes.md#environment).

{connection}

## A service

`Service(MyJobs, …)` and `service.connect(url, …)`, in code:

{service}

## Workers

`trellis-jobs worker MODULE:SERVICE`, beside the connection:

{worker}

## The admin runtime

`trellis-jobs admin serve`, beside the connection; see
[running the admin](../guides/running-the-admin.md):

{admin}

## trellis-jobs dev

Beside the connection; see [developing](../guides/developing.md):

{dev}

## Other commands

Every option of every command has a variable too: [the command line](cli.md) names each. Besides,
they heed:

{environment}
"""
# Of Service() and connect(), in code.
_MEANING: Final[Mapping[str, str]] = {
    "grace": "seconds that running jobs get to finish when it stops",
    "bindings": "other names for the service and its queues",
    "url": "servers, separated by commas, or `ConnectOptions` with keys and certificates",
    "workers": "`False` only produces; `Workers(queues=…, concurrency=…)` takes a part of the work",
    "credentials": "a NATS credentials file",
    "replicas": "of streams that are new; else as many as the cluster can hold",
    "system_account": "a URL or a credentials file that may ask how large the cluster is; "
    "without it, new streams get one replica",
    "connect_timeout": "seconds in which a server and its JetStream must be there; `None` waits "
    "without end",
}
_HEEDED: Final[Mapping[str, str]] = {
    "NO_COLOR": "if it is set to anything, there are no colours, in logs neither",
    "FORCE_COLOR": "colours in a pipe too",
    "COLUMNS": "how wide the terminal is, if it does not tell",
    "XDG_CONFIG_HOME": "where natscli keeps its contexts (`nats/`); default `~/.config`",
    "XDG_DATA_HOME": "where the projection is (`trellis/jobs.sqlite`), if the system's place "
    "cannot be written and nobody says another; default `~/.local/share`",
}


def page() -> str:
    of = dict(cli_page.commands())
    connection = [
        each for each in cli_page.options(of["trellis-jobs services"]) if _is_shared(each)
    ]
    assert {each.envvar for each in connection} - {"NATS_CONTEXT"} == set(VARIABLES.values())
    assert _read_in_the_code() <= _HEEDED.keys()
    return _PAGE.format(
        connection=_table(connection, ""),
        service=_in_code(),
        worker=_own(of, "trellis-jobs worker"),
        admin=_own(of, "trellis-jobs admin serve"),
        dev=_own(of, "trellis-jobs dev"),
        environment=_rows(("Variable", ""), ((f"`{k}`", v) for k, v in _HEEDED.items())),
    )


def _own(of: Mapping[str, Any], command: str) -> str:
    own = [each for each in cli_page.options(of[command]) if not _is_shared(each)]
    return _table(own, command)


def _is_shared(option: Any) -> bool:
    return option.name in cli_page.OF_EVERY_CONNECTION


def _table(options: Iterable[Any], command: str) -> str:
    rows = (
        (
            f"`{cli_page.variable(each, command)}`",
            f"`{cli_page.flag(each)}`",
            _default(each),
            each.help or "",
        )
        for each in options
    )
    return _rows(("Variable", "Option", "Default", ""), rows)


def _default(option: Any) -> str:
    if isinstance(option.default, bool):
        return "on" if option.default else "off"
    told = cli_page.default(option)
    return f"`{told}`" if told else ""


def _in_code() -> str:
    return _rows(("Parameter", "Default", ""), _parameters())


def _parameters() -> Iterator[tuple[str, ...]]:
    for called, function in (("Service", Service), ("connect", Service.connect)):
        for name, each in inspect.signature(function).parameters.items():
            if name not in {"self", "jobs"}:
                default = "" if each.default is None else f"`{each.default}`"
                yield f"`{called}({name}=…)`", default, _MEANING[name]


def _read_in_the_code() -> set[str]:
    """Variables that the code reads itself, by their names."""
    sources = (
        each for part in ("trellis_jobs", "jobs_admin") for each in (_ROOT / part).rglob("*.py")
    )
    return {name for each in sources for name in _READ.findall(each.read_text(encoding="utf-8"))}


def _rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [cli_page.table_row(*head), f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(cli_page.table_row(*row) for row in rows)])
