"""How a command reaches a server: the same options everywhere, natscli's words and variables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs_admin.api.client import REQUEST_TIMEOUT, AdminClient
from jobs_admin.cli import nats_contexts
from jobs_admin.cli.exit_codes import Misused
from trellis_jobs.errors import Unreachable
from trellis_jobs.jetstream.client.connect_options import (
    API_PREFIX,
    DEFAULT_SERVER,
    ConnectOptions,
    TlsFiles,
)
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.server_urls import parse_server_urls

_PANEL: Final = "Connection"
# Somebody waits: for a server, for JetStream, and for an admin runtime that is asked twice.
PATIENCE: Final = 3.0


def _unless_a_context_is_said(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """A context of the command line stands for itself: what the environment says is of another."""
    return None if _is_outdone(ctx, param.name, by="context") else value


def _unless_a_server_is_said(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """A server of the command line is not given the keys of the environment's context."""
    return None if _is_outdone(ctx, param.name, by="nats") else value


def _is_outdone(ctx: typer.Context, name: str | None, *, by: str) -> bool:
    """What the command line says is read first, so its source is known by now."""
    return (_source(ctx, by), _source(ctx, name or "")) == ("COMMANDLINE", "ENVIRONMENT")


def _source(ctx: typer.Context, name: str) -> str | None:
    """Where it was said: by name, as typer has a click of its own, and its enumeration with it."""
    source = ctx.get_parameter_source(name)
    return None if source is None else source.name


def _file(flag: str, variable: str, what: str) -> Any:
    return typer.Option(
        flag,
        envvar=variable,
        help=what,
        metavar="FILE",
        exists=True,
        dir_okay=False,
        readable=True,
        rich_help_panel=_PANEL,
        callback=_unless_a_context_is_said,
    )


def _prefix(flag: str, variable: str, what: str) -> Any:
    return typer.Option(
        flag,
        envvar=variable,
        help=what,
        metavar="PREFIX",
        rich_help_panel=_PANEL,
        callback=_unless_a_context_is_said,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The command line comes before the environment, and both before what a context says."""

    nats: Annotated[
        str | None,
        typer.Option(
            "--nats",
            envvar="NATS_URL",
            help=f"Where the servers are, separated by commas. Default: the selected context of "
            f"natscli, else {DEFAULT_SERVER}.",
            metavar="URL",
            rich_help_panel=_PANEL,
            callback=_unless_a_context_is_said,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            envvar="NATS_CONTEXT",
            help="A context of natscli.",
            metavar="NAME",
            autocompletion=nats_contexts.names,
            rich_help_panel=_PANEL,
            callback=_unless_a_server_is_said,
        ),
    ] = None
    creds: Annotated[Path | None, _file("--creds", "NATS_CREDS", "A NATS credentials file.")] = None
    nkey: Annotated[Path | None, _file("--nkey", "NATS_NKEY", "A file with an nkey seed.")] = None
    tlsca: Annotated[
        Path | None, _file("--tlsca", "NATS_CA", "Authorities that vouch for the server.")
    ] = None
    tlscert: Annotated[
        Path | None, _file("--tlscert", "NATS_CERT", "A certificate to show the server.")
    ] = None
    tlskey: Annotated[
        Path | None, _file("--tlskey", "NATS_KEY", "The key of that certificate.")
    ] = None
    tlsfirst: Annotated[
        bool | None,
        typer.Option(
            "--tlsfirst",
            envvar="NATS_TLS_FIRST",
            help="Start TLS before the server sends anything, for servers with handshake_first.",
            rich_help_panel=_PANEL,
            callback=_unless_a_context_is_said,
        ),
    ] = None
    inbox_prefix: Annotated[
        str | None,
        _prefix("--inbox-prefix", "NATS_INBOX_PREFIX", "Where answers come to, if not _INBOX."),
    ] = None
    api_prefix: Annotated[
        str | None,
        _prefix("--api-prefix", "NATS_API_PREFIX", f"Of JetStream, if not {API_PREFIX}."),
    ] = None

    @property
    def is_told(self) -> bool:
        """Somebody named a server, here or in the environment."""
        return self.nats is not None or self.context is not None

    def access(self) -> ConnectOptions:
        known = self._of_context()
        if self.nats is not None:
            _check_addresses(self.nats)
        tls = TlsFiles(
            ca=_path(self.tlsca), certificate=_path(self.tlscert), key=_path(self.tlskey)
        )
        said: dict[str, Any] = {
            "servers": self.nats,
            "credentials": _path(self.creds),
            "nkey": _path(self.nkey),
            "tls": None if tls == TlsFiles() else tls,
            "tls_first": self.tlsfirst,
            "inbox_prefix": self.inbox_prefix,
            "api_prefix": self.api_prefix,
        }
        return replace(known, **{name: value for name, value in said.items() if value is not None})

    def environment(self) -> dict[str, str]:
        """The same for another command; what is not said here, it should not find elsewhere."""
        said = {
            "NATS_URL": self.nats,
            "NATS_CONTEXT": self.context,
            "NATS_CREDS": _path(self.creds),
            "NATS_NKEY": _path(self.nkey),
            "NATS_CA": _path(self.tlsca),
            "NATS_CERT": _path(self.tlscert),
            "NATS_KEY": _path(self.tlskey),
            "NATS_TLS_FIRST": "true" if self.tlsfirst else None,
            "NATS_INBOX_PREFIX": self.inbox_prefix,
            "NATS_API_PREFIX": self.api_prefix,
        }
        return {name: value or "" for name, value in said.items()}

    def _of_context(self) -> ConnectOptions:
        """A server that is named stands for itself, unless a context is named too."""
        name = self.context
        if name is None and self.nats is None:
            name = nats_contexts.selected()
        return (
            ConnectOptions(servers=DEFAULT_SERVER)
            if name is None
            else nats_contexts.access_of(name)
        )

    @asynccontextmanager
    async def connection(self, *, patient: bool = False) -> AsyncIterator[Connection]:
        """A server that is away is said soon; if it goes later, only who is `patient` waits."""
        connection = await Connection.open(
            self.access(),
            name="trellis-jobs",
            timeout=PATIENCE,
            retry_connect=False,
            max_wait=None if patient else PATIENCE,
        )
        try:
            yield connection
        finally:
            await connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConnectionOptions(ConnectionOptions):
    """For commands that ask the admin runtime."""

    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            envvar="TRELLIS_JOBS_TIMEOUT",
            help=f"Seconds to wait for an answer of the admin runtime. Default: {PATIENCE:g}, and "
            f"{REQUEST_TIMEOUT:g} for what changes something.",
            min=0.1,
            metavar="SECONDS",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @asynccontextmanager
    async def admin(self, by: str | None = None) -> AsyncIterator[AdminClient]:
        async with self.connection() as connection:
            yield self.asking(connection, by)

    def asking(self, connection: Connection, by: str | None = None) -> AdminClient:
        """A read is asked twice within the timeout: the daemon that took the first may be gone."""
        timeout, patience = self.timeout or REQUEST_TIMEOUT, self.timeout or PATIENCE
        return AdminClient(connection, by=by, timeout=timeout, read_timeout=patience / 2)


def _check_addresses(servers: str) -> None:
    try:
        parse_server_urls(servers)
    except Unreachable as error:
        raise Misused(f"--nats: {error}") from None


def is_said(ctx: typer.Context) -> bool:
    """On the command line itself, and not only in the environment."""
    return "COMMANDLINE" in {_source(ctx, name) for name in ("nats", "context")}


def _path(file: Path | None) -> str | None:
    return None if file is None else str(file)
