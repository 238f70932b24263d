"""docs/reference/settings.md: every setting, with its variable, default and meaning."""

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

On this page you find every setting of services, workers, the admin runtime and commands. Each
option has an environment variable. The command line overrides the environment.

The options of one queue (tries, delays, keys, deadlines) are declared in code:
[job(…)](api.md#declaring). Streams and consumers are in [subjects](subjects.md), and how long jobs
are kept in [retention](../operate/retention.md).

## Connection

Every command reads these. A program that connects with `ConnectOptions.from_environment()` reads
all of them except `--context`. [Exit codes](exit-codes.md#environment) has the contexts of
natscli, and which setting overrides which.

{connection}

## A service

`Service(MyJobs, …)` and `service.connect(url, …)`, in code:

{service}

## Workers

`trellis-jobs worker MODULE:SERVICE`, in addition to the connection:

{worker}

## The admin runtime

`trellis-jobs admin serve`, in addition to the connection; see
[running the admin](../guides/running-the-admin.md):

{admin}

## trellis-jobs dev

In addition to the connection; see [developing](../guides/developing.md):

{dev}

## Other commands

Every option of every command has a variable: see [the command line](cli.md). These variables apply
to all commands:

{environment}
"""
# The arguments of Service() and connect().
_MEANING: Final[Mapping[str, str]] = {
    "grace": "seconds that running jobs get to finish when it stops",
    "bindings": "other names for the service and its queues",
    "version": "the version of the application, for operators and in the history of jobs; without "
    "it, `TRELLIS_JOBS_APP_VERSION`",
    "labels": "texts by which operators select workers; without them, `TRELLIS_JOBS_LABELS`, "
    "separated by commas",
    "dead_after": "seconds without a heartbeat after which the jobs of a worker are started "
    "elsewhere; 25 by default",
    "url": "servers, separated by commas, or `ConnectOptions` with keys and certificates",
    "workers": "`False` only creates jobs; `Workers(queues=…, concurrency=…, "
    "total_concurrency=…)` runs some queues, or limits them",
    "credentials": "a NATS credentials file",
    "replicas": "replicas of new streams; by default as many as the cluster can hold",
    "system_account": "a URL or a credentials file that may read the size of the cluster; "
    "without it, new streams get one replica",
    "connect_timeout": "seconds to wait for a server and its JetStream; `None` waits without limit",
}
_HEEDED: Final[Mapping[str, str]] = {
    "NO_COLOR": "if it is set, there are no colours, also in logs",
    "FORCE_COLOR": "colours in a pipe too",
    "COLUMNS": "the width of the terminal, if it cannot be detected",
    "TRELLIS_JOBS_APP_VERSION": "the version of the application, unless `Service(version=…)` is "
    "given",
    "TRELLIS_JOBS_LABELS": "labels of its workers, unless `Service(labels=…)` is given",
    "XDG_CONFIG_HOME": "where natscli keeps its contexts (`nats/`); default `~/.config`",
    "XDG_DATA_HOME": "where the projection is (`trellis/jobs.sqlite`), if the system's folder "
    "cannot be written and no other file is set; default `~/.local/share`",
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
