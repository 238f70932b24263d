"""The connection options of every command, with the names and variables of natscli."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs_admin.api.client import REQUEST_TIMEOUT, AdminClient
from jobs_admin.cli import nats_contexts
from jobs_admin.cli.exit_codes import UsageError
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
# An operator waits at the terminal for the server, for JetStream and for the admin runtime.
DEFAULT_TIMEOUT: Final = 3.0


def _unless_context_option(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """`--context` on the command line overrides `NATS_*` environment variables."""
    return None if _is_overridden(ctx, param.name, by="context") else value


def _unless_nats_option(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """`--nats` overrides NATS_CONTEXT, so that server does not get another server's credentials."""
    return None if _is_overridden(ctx, param.name, by="nats") else value


def _is_overridden(ctx: typer.Context, name: str | None, *, by: str) -> bool:
    """click reads the command line before the environment, so the source is known by now."""
    return (_source(ctx, by), _source(ctx, name or "")) == ("COMMANDLINE", "ENVIRONMENT")


def _source(ctx: typer.Context, name: str) -> str | None:
    """Return the name of the source, because typer bundles a copy of click's enumeration."""
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
        callback=_unless_context_option,
    )


def _prefix(flag: str, variable: str, what: str) -> Any:
    return typer.Option(
        flag,
        envvar=variable,
        help=what,
        metavar="PREFIX",
        rich_help_panel=_PANEL,
        callback=_unless_context_option,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The command line overrides the environment, and both override a natscli context."""

    nats: Annotated[
        str | None,
        typer.Option(
            "--nats",
            envvar="NATS_URL",
            help=f"Server addresses, separated by commas. Default: the selected natscli context, "
            f"otherwise {DEFAULT_SERVER}.",
            metavar="URL",
            rich_help_panel=_PANEL,
            callback=_unless_context_option,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            envvar="NATS_CONTEXT",
            help="Name of a natscli context.",
            metavar="NAME",
            autocompletion=nats_contexts.names,
            rich_help_panel=_PANEL,
            callback=_unless_nats_option,
        ),
    ] = None
    creds: Annotated[Path | None, _file("--creds", "NATS_CREDS", "A NATS credentials file.")] = None
    nkey: Annotated[Path | None, _file("--nkey", "NATS_NKEY", "A file with an nkey seed.")] = None
    tlsca: Annotated[
        Path | None, _file("--tlsca", "NATS_CA", "CA certificates to verify the server with.")
    ] = None
    tlscert: Annotated[
        Path | None, _file("--tlscert", "NATS_CERT", "The TLS client certificate.")
    ] = None
    tlskey: Annotated[
        Path | None, _file("--tlskey", "NATS_KEY", "The private key of the client certificate.")
    ] = None
    tlsfirst: Annotated[
        bool | None,
        typer.Option(
            "--tlsfirst",
            envvar="NATS_TLS_FIRST",
            help="Start TLS before the server sends anything (for servers with handshake_first).",
            rich_help_panel=_PANEL,
            callback=_unless_context_option,
        ),
    ] = None
    inbox_prefix: Annotated[
        str | None,
        _prefix("--inbox-prefix", "NATS_INBOX_PREFIX", "Subject prefix of replies, if not _INBOX."),
    ] = None
    api_prefix: Annotated[
        str | None,
        _prefix(
            "--api-prefix",
            "NATS_API_PREFIX",
            f"Subject prefix of the JetStream API, if not {API_PREFIX}.",
        ),
    ] = None

    @property
    def names_server(self) -> bool:
        """True if the command line or the environment names a server."""
        return self.nats is not None or self.context is not None

    def connect_options(self) -> ConnectOptions:
        from_context = self._from_context()
        if self.nats is not None:
            _check_addresses(self.nats)
        tls = TlsFiles(
            ca=_path(self.tlsca), certificate=_path(self.tlscert), key=_path(self.tlskey)
        )
        given: dict[str, Any] = {
            "servers": self.nats,
            "credentials": _path(self.creds),
            "nkey": _path(self.nkey),
            "tls": None if tls == TlsFiles() else tls,
            "tls_first": self.tlsfirst,
            "inbox_prefix": self.inbox_prefix,
            "api_prefix": self.api_prefix,
        }
        return replace(
            from_context, **{name: value for name, value in given.items() if value is not None}
        )

    def environment(self) -> dict[str, str]:
        """The same options for a child process.

        Options that are not set become empty, so that the child does not inherit other values.
        """
        given = {
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
        return {name: value or "" for name, value in given.items()}

    def _from_context(self) -> ConnectOptions:
        """The selected context is not used when a server is named without a context."""
        name = self.context
        if name is None and self.nats is None:
            name = nats_contexts.selected()
        return (
            ConnectOptions(servers=DEFAULT_SERVER)
            if name is None
            else nats_contexts.load_context(name)
        )

    @asynccontextmanager
    async def connection(self, *, reconnect: bool = False) -> AsyncIterator[Connection]:
        """Fails soon when no server answers.

        If the connection is lost later, requests wait for it with `reconnect` and fail without.
        """
        connection = await Connection.open(
            self.connect_options(),
            name="trellis-jobs",
            timeout=DEFAULT_TIMEOUT,
            retry_connect=False,
            max_wait=None if reconnect else DEFAULT_TIMEOUT,
        )
        try:
            yield connection
        finally:
            await connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConnectionOptions(ConnectionOptions):
    """For commands that send requests to the admin runtime."""

    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            envvar="TRELLIS_JOBS_TIMEOUT",
            help="Seconds to wait for a reply from the admin runtime. Default: "
            f"{DEFAULT_TIMEOUT:g} for reads, {REQUEST_TIMEOUT:g} for changes.",
            min=0.1,
            metavar="SECONDS",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @asynccontextmanager
    async def admin(self, by: str | None = None) -> AsyncIterator[AdminClient]:
        async with self.connection() as connection:
            yield self.admin_client(connection, by)

    def admin_client(self, connection: Connection, by: str | None = None) -> AdminClient:
        """The client repeats a read once within the timeout, in case the first daemon died."""
        timeout, read_timeout = self.timeout or REQUEST_TIMEOUT, self.timeout or DEFAULT_TIMEOUT
        return AdminClient(connection, by=by, timeout=timeout, read_timeout=read_timeout / 2)


def _check_addresses(servers: str) -> None:
    try:
        parse_server_urls(servers)
    except Unreachable as error:
        raise UsageError(f"--nats: {error}") from None


def names_server_on_command_line(ctx: typer.Context) -> bool:
    """True if the command line itself, and not only the environment, names a server."""
    return "COMMANDLINE" in {_source(ctx, name) for name in ("nats", "context")}


def _path(file: Path | None) -> str | None:
    return None if file is None else str(file)
