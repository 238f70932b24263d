"""Which connection to NATS each role of a console has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jobs_admin.cli import nats_contexts
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.console.auth.addresses import is_loopback
from jobs_admin.console.users import Role, nats_user
from trellis_jobs.contract.permissions.grants import inbox_prefix
from trellis_jobs.jetstream.client.other_user import as_other_user

if TYPE_CHECKING:
    from jobs_admin.cli.console.options import ConsoleOptions
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions


def role_connections(console: ConsoleOptions, viewer: ConnectOptions) -> dict[Role, ConnectOptions]:
    """A role without credentials does not exist, unless roles share the viewer's connection.

    They do by --share-connection, and on a loopback address where no credentials of roles are
    given and users do not sign in: then every account of the machine may use the console, with
    the NATS credentials of the person who started it.
    """
    given = console.credentials
    is_own = not given and not console.auth and is_loopback(console.host)
    if is_own:
        return dict.fromkeys(Role, viewer)
    viewer = viewer.with_inbox_prefix(inbox_prefix(nats_user(Role.VIEWER)))
    own = {role: _connection(role, text, viewer) for role, text in given.items()}
    shared = dict.fromkeys(Role, viewer) if console.share_connection else {Role.VIEWER: viewer}
    return {**shared, **own}


def connect_as(option: str, given: str, servers: ConnectOptions) -> ConnectOptions:
    """Connect as a user who is given as a file, as a URL or as a natscli context."""
    if "://" in given or Path(given).is_file():
        return as_other_user(servers, given)
    if given in nats_contexts.names():
        return nats_contexts.load_context(given)
    raise UsageError(f"{option}: {given!r} is neither a file nor a natscli context")


def _connection(role: Role, given: str, servers: ConnectOptions) -> ConnectOptions:
    found = connect_as(f"--{role}-creds", given, servers)
    return found.with_inbox_prefix(inbox_prefix(nats_user(role)))
