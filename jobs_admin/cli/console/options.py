"""The options of a console: where it listens, who signs in, and the credentials of its roles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs_admin.console.auth.addresses import TrustedProxies
from jobs_admin.console.auth.settings import (
    GROUPS_HEADER,
    USER_HEADER,
    SignInKind,
    SignInSettings,
)
from jobs_admin.console.config import DEFAULT_PORT, ConsoleConfig
from jobs_admin.console.users import Role
from jobs_admin.http.probes import LOOPBACK

_VARIABLES: Final = "TRELLIS_JOBS_CONSOLE"
_SIGN_IN: Final = "Signing in"
_ROLES: Final = "Roles"
_CREDENTIALS: Final = (
    "a credentials file, a seed file, a URL with user and password, or a natscli context"
)
# The help of an option is the same for `console serve` and, with --console- before its name, for
# `admin serve`.
_HELP: Final = {
    "host": "Address to listen on. Any but a loopback address needs --auth.",
    "environment": "Name on the badge of every page, such as production.",
    "allowed-host": "A name under which browsers reach the console, such as jobs.example.com. May "
    "be repeated. Loopback names and the address of --host are always allowed.",
    "auth": "How users sign in; may be repeated. basic: with a password. token: machines, with a "
    "bearer token. proxy: a proxy has signed them in and sends their names.",
    "users": "The file with users, their roles and hashes of passwords: docs/guides/console.md.",
    "no-auth": "Let everyone who reaches the address use the console, without signing in.",
    "trusted-proxy": "Address or network of a proxy whose headers count. May be repeated.",
    "user-header": "Header in which the proxy sends the name of the user.",
    "groups-header": "Header in which the proxy sends the user's groups, separated by commas.",
    "creds": f"Connect as this user of NATS: {_CREDENTIALS}. Default, without "
    "--auth: as the admin runtime.",
    "operator-creds": f"Change jobs as this user of NATS: {_CREDENTIALS}.",
    "secrets-creds": f"Reveal secret fields as this user of NATS: {_CREDENTIALS}.",
    "create-creds": f"Create jobs as this user of NATS: {_CREDENTIALS}.",
    "share-connection": "Let every role without credentials use the connection of the viewer. Then "
    "the console alone enforces the roles, and not the NATS server.",
}


def _option(name: str, panel: str | None = None, **more: Any) -> Any:
    return _flag(f"--{name}", name, _HELP[name], panel, **more)


def _embedded(name: str, **more: Any) -> Any:
    """Also the options that the help names begin with --console-."""
    help = re.sub(r"--(?=[a-z])", "--console-", _HELP[name])
    return _flag(f"--console-{name}", name, help, "Console", **more)


def _flag(flag: str, name: str, help: str, panel: str | None, **more: Any) -> Any:
    variable = f"{_VARIABLES}_{name.replace('-', '_').upper()}"
    return typer.Option(flag, envvar=variable, help=help, rich_help_panel=panel, **more)


_FILE: Final = {"metavar": "FILE", "dir_okay": False}
_USER: Final = {"metavar": "FILE|URL|CONTEXT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """`host`, `port` and so on of `console serve`; for other commands made from theirs."""

    host: Annotated[str, _option("host", metavar="ADDRESS")] = LOOPBACK
    port: Annotated[
        int,
        typer.Option(
            envvar=f"{_VARIABLES}_PORT",
            help="Port of the web server; 0 is any free port.",
            min=0,
            max=65535,
        ),
    ] = DEFAULT_PORT
    environment: Annotated[str, _option("environment")] = ""
    allowed_host: Annotated[list[str] | None, _option("allowed-host", metavar="NAME")] = None
    auth: Annotated[list[SignInKind] | None, _option("auth", _SIGN_IN)] = None
    users: Annotated[Path | None, _option("users", _SIGN_IN, **_FILE)] = None
    no_auth: Annotated[bool, _option("no-auth", _SIGN_IN)] = False
    trusted_proxy: Annotated[
        list[str] | None, _option("trusted-proxy", _SIGN_IN, metavar="NETWORK")
    ] = None
    user_header: Annotated[str, _option("user-header", _SIGN_IN)] = USER_HEADER
    groups_header: Annotated[str, _option("groups-header", _SIGN_IN)] = GROUPS_HEADER
    operator_creds: Annotated[str | None, _option("operator-creds", _ROLES, **_USER)] = None
    secrets_creds: Annotated[str | None, _option("secrets-creds", _ROLES, **_USER)] = None
    create_creds: Annotated[str | None, _option("create-creds", _ROLES, **_USER)] = None
    share_connection: Annotated[bool, _option("share-connection", _ROLES)] = False

    def config(self) -> ConsoleConfig:
        """Raises ConfigError if anyone on the network could use the console."""
        config = ConsoleConfig(
            host=self.host,
            port=self.port,
            environment=self.environment,
            allowed_hosts=tuple(self.allowed_host or ()),
            sign_in=SignInSettings(
                kinds=tuple(self.auth or ()),
                users=self.users,
                proxies=TrustedProxies.parse(self.trusted_proxy or ()),
                user_header=self.user_header,
                groups_header=self.groups_header,
                is_open=self.no_auth,
            ),
        )
        config.check()
        return config

    @property
    def credentials(self) -> dict[Role, str]:
        given = {
            Role.OPERATOR: self.operator_creds,
            Role.SECRETS: self.secrets_creds,
            Role.CREATOR: self.create_creds,
        }
        return {role: text for role, text in given.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedConsoleOptions:
    """The console of `admin serve`, which has one only with --console-port."""

    console_port: Annotated[
        int | None,
        typer.Option(
            "--console-port",
            envvar=f"{_VARIABLES}_PORT",
            help="Serve the web console on this port (0: any free port).",
            min=0,
            max=65535,
            rich_help_panel="Console",
        ),
    ] = None
    console_host: Annotated[str, _embedded("host", metavar="ADDRESS")] = LOOPBACK
    console_environment: Annotated[str, _embedded("environment")] = ""
    console_allowed_host: Annotated[list[str] | None, _embedded("allowed-host", metavar="NAME")] = (
        None
    )
    console_auth: Annotated[list[SignInKind] | None, _embedded("auth")] = None
    console_users: Annotated[Path | None, _embedded("users", **_FILE)] = None
    console_no_auth: Annotated[bool, _embedded("no-auth")] = False
    console_trusted_proxy: Annotated[
        list[str] | None, _embedded("trusted-proxy", metavar="NETWORK")
    ] = None
    console_creds: Annotated[str | None, _embedded("creds", **_USER)] = None
    console_operator_creds: Annotated[str | None, _embedded("operator-creds", **_USER)] = None
    console_secrets_creds: Annotated[str | None, _embedded("secrets-creds", **_USER)] = None
    console_create_creds: Annotated[str | None, _embedded("create-creds", **_USER)] = None

    def options(self) -> ConsoleOptions | None:
        if self.console_port is None:
            return None
        return ConsoleOptions(
            host=self.console_host,
            port=self.console_port,
            environment=self.console_environment,
            allowed_host=self.console_allowed_host,
            auth=self.console_auth,
            users=self.console_users,
            no_auth=self.console_no_auth,
            trusted_proxy=self.console_trusted_proxy,
            operator_creds=self.console_operator_creds,
            secrets_creds=self.console_secrets_creds,
            create_creds=self.console_create_creds,
        )
