"""`trellis-jobs permissions`: least privileges for each NATS user, as server configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs_admin.api.contract import RPCS, Capability
from jobs_admin.cli.queue_contract import read_contract
from jobs_admin.cli.render.output import print_json, print_text
from jobs_admin.cli.service_loader import load_service
from jobs_admin.config import SERVICE_NAME
from jobs_admin.console.users import Role, nats_user
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.permissions import grants
from trellis_jobs.contract.permissions.accounts import (
    OPERATORS,
    PLATFORM,
    PLATFORM_API,
    SYSTEM,
    NatsUser,
    account_per_service,
    check_users,
    single_account,
)
from trellis_jobs.contract.permissions.admin_grants import of_admin
from trellis_jobs.contract.permissions.conf import to_conf, to_json
from trellis_jobs.contract.permissions.grants import Permissions, inbox_prefix
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import check_token

# Reads that commands which change jobs need: they list the jobs, and follow the operation.
_READS_FOR_CHANGES: Final = {
    Capability.MUTATE: (
        "Jobs.Get",
        "Jobs.GetOperation",
        "Jobs.Health",
        "Jobs.List",
        "Jobs.ListOperations",
    ),
    Capability.WORKERS: ("Jobs.ListWorkers", "Jobs.ListServices"),
    Capability.CREATE: (
        "Jobs.Get",
        "Jobs.GetContract",
        "Jobs.Health",
        "Jobs.ListQueues",
        "Jobs.RecentPayloads",
    ),
}
# Through the admin runtime or, without one, directly.
_QUEUE_METHODS: Final = ("Jobs.ListQueues", "Jobs.PauseQueue", "Jobs.ResumeQueue")
_WORKER_METHODS: Final = ("Jobs.ListWorkers", "Jobs.ListServices", "Jobs.DirectWorkers")
_CAPABILITIES: Final = {
    "read": Capability.READ,
    "mutate": Capability.MUTATE,
    "secrets": Capability.SECRETS,
    "workers": Capability.WORKERS,
    "create": Capability.CREATE,
}
# What the users of the console may do: each role has its own connection.
_CONSOLE_ROLES: Final = {
    Role.VIEWER: ("read",),
    Role.OPERATOR: ("mutate", "workers"),
    Role.SECRETS: ("secrets",),
    Role.CREATOR: ("create",),
}
_STREAM: Final = "stream"
_QUEUES: Final = "queues"
_WORKER_RECORDS: Final = "worker-records"
_USERS: Final = "Users"


class AccountShape(StrEnum):
    USERS = "users"
    ACCOUNTS = "accounts"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOptions:
    """The users that the configuration is written for."""

    service: Annotated[
        list[str] | None,
        typer.Option(
            help="A service: its code (app:service) or its manifest file. May be repeated.",
            metavar="MODULE:SERVICE|FILE",
            rich_help_panel=_USERS,
        ),
    ] = None
    admin: Annotated[
        bool, typer.Option("--admin", help="The admin runtime.", rich_help_panel=_USERS)
    ] = False
    operator: Annotated[
        list[str] | None,
        typer.Option(
            help="An operator who may query the admin runtime (read), change jobs (mutate), create "
            "jobs in any queue (create), read secret fields (secrets), direct workers (workers), "
            "also without an admin runtime (worker-records), pause queues (queues) or read the log "
            "(stream). May be repeated.",
            metavar="[NAME=]read|mutate|create|secrets|workers|worker-records|queues|stream[,…]",
            rich_help_panel=_USERS,
        ),
    ] = None
    console: Annotated[
        bool,
        typer.Option(
            "--console",
            help="The users of the web console, one for each role: "
            f"{', '.join(map(nats_user, _CONSOLE_ROLES))}.",
            rich_help_panel=_USERS,
        ),
    ] = False
    provisioner: Annotated[
        bool,
        typer.Option(
            "--provisioner",
            help="The user that creates the streams, and the consumers of every --service.",
            rich_help_panel=_USERS,
        ),
    ] = False
    system: Annotated[
        bool,
        typer.Option(
            "--system",
            help="The user `sys` of the system account, for --system-account of `doctor` and "
            "`infra`.",
            rich_help_panel=_USERS,
        ),
    ] = False
    backup: Annotated[
        bool,
        typer.Option(
            "--backup",
            help="The user that backs up the streams (`nats stream backup`).",
            rich_help_panel=_USERS,
        ),
    ] = False
    name: Annotated[
        str | None,
        typer.Option(
            help="User name of the admin runtime, operator, provisioner or backup user, if only "
            "one of these is given.",
            metavar="USER",
            rich_help_panel=_USERS,
        ),
    ] = None

    nkey: Annotated[
        list[str] | None,
        typer.Option(
            help="Public key of a user, instead of a password. May be repeated.",
            metavar="USER=KEY",
            rich_help_panel=_USERS,
        ),
    ] = None

    def users(self) -> list[NatsUser]:
        keys = dict(_key(each) for each in self.nkey or ())
        contracts = [_contract(named) for named in self.service or ()]
        users = (
            *map(_service_user, contracts),
            *self._hosts(contracts),
            *self._operators(contracts),
            *self._console_users(),
            *self._system_users(),
        )
        found = [replace(user, nkey=keys.pop(user.name, None)) for user in users]
        names = [user.name for user in found]
        if not names:
            raise typer.BadParameter(
                "name at least one user: --service, --admin, --operator, --console, --provisioner, "
                "--backup or --system"
            )
        for name in names:
            if names.count(name) > 1:
                raise typer.BadParameter(f"two users are called {name!r}: rename one of them")
        if self.name is not None and names.count(self.name) == 0:
            raise typer.BadParameter(
                "a service takes its user name from its contract", param_hint="--name"
            )
        if keys:
            raise typer.BadParameter(f"no user is called {', '.join(keys)}", param_hint="--nkey")
        grants.check_distinct_consumers(contracts)
        check_users(found)
        return found

    def _hosts(self, contracts: Sequence[ServiceContract]) -> Iterator[NatsUser]:
        if self.admin:
            name = _checked(self.name or SERVICE_NAME)
            yield NatsUser(name, of_admin(name, contracts))
        if self.provisioner:
            name = _checked(self.name or "provisioner")
            yield NatsUser(name, grants.of_provisioner(name, contracts))
        if self.backup:
            name = _checked(self.name or "backup")
            yield NatsUser(name, grants.of_backup(name))

    def _system_users(self) -> Iterator[NatsUser]:
        if self.system:
            yield NatsUser("sys", grants.of_system_user(), SYSTEM)

    def _console_users(self) -> Iterator[NatsUser]:
        for role, capabilities in _CONSOLE_ROLES.items() if self.console else ():
            name = nats_user(role)
            yield NatsUser(name, _operator_rights(name, capabilities, ()), OPERATORS)

    def _operators(self, contracts: Sequence[ServiceContract]) -> Iterator[NatsUser]:
        granted: dict[str, list[str]] = {}
        for each in self.operator or ():
            name, equals, capabilities = each.rpartition("=")
            user = _checked(name if equals else self.name or "operator")
            granted.setdefault(user, []).extend(capabilities.split(","))
        for user, capabilities_of_user in granted.items():
            rights = _operator_rights(user, capabilities_of_user, contracts)
            yield NatsUser(user, rights, OPERATORS)


def permissions(
    users: UserOptions,
    shape: Annotated[
        AccountShape,
        typer.Option(
            help="One account for all users, or one account per service; "
            "docs/operate/permissions.md compares them.",
        ),
    ] = AccountShape.USERS,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON. nats-server can read its `config` if every user has an nkey.",
        ),
    ] = False,
) -> None:
    """Print least-privilege users for services, operators and the admin runtime, for nats.conf."""
    listed = users.users()
    settings = (
        single_account(listed) if shape is AccountShape.USERS else account_per_service(listed)
    )
    if json:
        prefixes = [_connect_settings(user, shape) for user in listed]
        print_json({"shape": shape.value, "users": prefixes, "config": to_json(settings)})
        return
    print_text("\n".join(_headings(listed, shape)))
    print_text(to_conf(settings).removesuffix("\n"))


def _operator_rights(
    name: str, capabilities: Sequence[str], contracts: Sequence[ServiceContract]
) -> Permissions:
    parts = []
    for capability in capabilities:
        if capability == _STREAM:
            parts.append(grants.of_log_reader(name))
        elif capability == _QUEUES:
            parts.append(grants.of_queue_operator(name, contracts))
            parts.append(grants.of_operator(name, _QUEUE_METHODS))
        elif capability == _WORKER_RECORDS:
            parts.append(grants.of_worker_operator(name))
            parts.append(grants.of_operator(name, _WORKER_METHODS))
        elif capability in _CAPABILITIES:
            needed = _CAPABILITIES[capability]
            methods = [method for method, rpc in RPCS.items() if rpc.needs is needed]
            methods += _READS_FOR_CHANGES.get(needed, ())
            parts.append(grants.of_operator(name, methods))
        else:
            known = ", ".join((*_CAPABILITIES, _QUEUES, _WORKER_RECORDS, _STREAM))
            raise typer.BadParameter(
                f"{capability!r} is not one of {known}", param_hint="--operator"
            )
    return reduce(Permissions.__or__, parts)


def _service_user(contract: ServiceContract) -> NatsUser:
    rights = grants.of_service(contract)
    return NatsUser(contract.service, rights, contract.service, is_service=True)


def _contract(named: str) -> ServiceContract:
    file = Path(named)
    return read_contract(file) if file.is_file() else load_service(named).contract


def _key(given: str) -> tuple[str, str]:
    """The error does not quote the value, because it may be a seed."""
    name, equals, key = given.partition("=")
    if not equals or not key.startswith("U"):
        raise typer.BadParameter(
            "use USER=KEY, where KEY is the public key of a user and starts with U",
            param_hint="--nkey",
        )
    return name, key


def _checked(name: str) -> str:
    try:
        return check_token("user", name)
    except InvalidToken as error:
        raise typer.BadParameter(str(error)) from None


def _connect_settings(user: NatsUser, shape: AccountShape) -> dict[str, Any]:
    """The options that the user must connect with to fit its permissions."""
    of_account = {"account": user.account} if shape is AccountShape.ACCOUNTS else {}
    if user.account == SYSTEM:
        return {"name": user.name, "account": user.account}
    prefixes = {"inboxPrefix": inbox_prefix(user.name), "apiPrefix": _api_prefix(user, shape)}
    return {"name": user.name, **of_account, **prefixes}


def _api_prefix(user: NatsUser, shape: AccountShape) -> str:
    is_guest = shape is AccountShape.ACCOUNTS and user.account != PLATFORM
    return PLATFORM_API if is_guest else grants.API


def _headings(users: Iterable[NatsUser], shape: AccountShape) -> Iterator[str]:
    for user in users:
        if user.account == SYSTEM:
            yield f"# Use {user.name} with --system-account"
            continue
        prefix = _api_prefix(user, shape)
        api = "" if prefix == grants.API else f" --api-prefix '{prefix}'"
        yield f"# {user.name} connects with --inbox-prefix {inbox_prefix(user.name)}{api}"
