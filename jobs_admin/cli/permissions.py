"""`trellis-jobs permissions`: the least rights of whoever connects, as configuration of NATS."""

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
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.permissions import grants
from trellis_jobs.contract.permissions.accounts import (
    OPERATORS,
    PLATFORM,
    PLATFORM_API,
    SYSTEM,
    NatsUser,
    check_users,
    in_accounts,
    in_one_account,
)
from trellis_jobs.contract.permissions.conf import json_of, text_of
from trellis_jobs.contract.permissions.grants import Rights, inbox_of
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import check_token

# What commands that change jobs ask too: which jobs these are, whether anybody answers, and how far
# an operation is.
_ASKED_WITH_CHANGES: Final = (
    "Jobs.Get",
    "Jobs.GetOperation",
    "Jobs.Health",
    "Jobs.List",
    "Jobs.ListOperations",
)
_CAPABILITIES: Final = {
    "read": Capability.READ,
    "mutate": Capability.MUTATE,
    "secrets": Capability.SECRETS,
}
_STREAM: Final = "stream"
_QUEUES: Final = "queues"
_WHO: Final = "Who"


class AccountShape(StrEnum):
    USERS = "users"
    ACCOUNTS = "accounts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """All of them in one configuration."""

    service: Annotated[
        list[str] | None,
        typer.Option(
            help="A service: its code, as in app:service, or its manifest. May be repeated.",
            metavar="MODULE:SERVICE|FILE",
            rich_help_panel=_WHO,
        ),
    ] = None
    admin: Annotated[
        bool, typer.Option("--admin", help="The admin runtime.", rich_help_panel=_WHO)
    ] = False
    operator: Annotated[
        list[str] | None,
        typer.Option(
            help="Somebody who asks the admin runtime (read), changes jobs through it (mutate), is "
            "told what is secret in them (secrets), pauses queues (queues) or reads the log "
            "(stream). May be repeated.",
            metavar="[NAME=]read|mutate|secrets|queues|stream[,…]",
            rich_help_panel=_WHO,
        ),
    ] = None
    provisioner: Annotated[
        bool,
        typer.Option(
            "--provisioner",
            help="Who makes the streams, and the consumers of every --service.",
            rich_help_panel=_WHO,
        ),
    ] = False
    system: Annotated[
        bool,
        typer.Option(
            "--system",
            help="Who may ask the servers themselves, for `doctor` and `infra`: the user sys.",
            rich_help_panel=_WHO,
        ),
    ] = False
    backup: Annotated[
        bool,
        typer.Option(
            "--backup",
            help="Who takes backups of the streams (`nats stream backup`).",
            rich_help_panel=_WHO,
        ),
    ] = False
    name: Annotated[
        str | None,
        typer.Option(
            help="Of the admin runtime, the operator or the provisioner, if it is the only one.",
            metavar="USER",
            rich_help_panel=_WHO,
        ),
    ] = None

    nkey: Annotated[
        list[str] | None,
        typer.Option(
            help="The public key by which a user is known, instead of a password. May be repeated.",
            metavar="USER=KEY",
            rich_help_panel=_WHO,
        ),
    ] = None

    def users(self) -> list[NatsUser]:
        keys = dict(_key(each) for each in self.nkey or ())
        contracts = [_contract(named) for named in self.service or ()]
        everybody = (
            *map(_of_service, contracts),
            *self._hosts(contracts),
            *self._operators(contracts),
            *self._system_users(),
        )
        found = [replace(user, nkey=keys.pop(user.name, None)) for user in everybody]
        names = [user.name for user in found]
        if not names:
            who = "--service, --admin, --operator, --provisioner, --backup or --system"
            raise typer.BadParameter(f"say who: {who}")
        for name in names:
            if names.count(name) > 1:
                raise typer.BadParameter(f"{name!r} is the name of two users: give one another")
        if self.name is not None and names.count(self.name) == 0:
            raise typer.BadParameter("a service has the name of its contract", param_hint="--name")
        if keys:
            raise typer.BadParameter(f"nobody is called {', '.join(keys)}", param_hint="--nkey")
        grants.check_apart(contracts)
        check_users(found)
        return found

    def _hosts(self, contracts: Sequence[ServiceContract]) -> Iterator[NatsUser]:
        if self.admin:
            name = _named(self.name or SERVICE_NAME)
            yield NatsUser(name, grants.of_admin(name, contracts))
        if self.provisioner:
            name = _named(self.name or "provisioner")
            yield NatsUser(name, grants.of_provisioner(name, contracts))
        if self.backup:
            name = _named(self.name or "backup")
            yield NatsUser(name, grants.of_backup(name))

    def _system_users(self) -> Iterator[NatsUser]:
        if self.system:
            yield NatsUser("sys", grants.of_system_user(), SYSTEM)

    def _operators(self, contracts: Sequence[ServiceContract]) -> Iterator[NatsUser]:
        wanted: dict[str, list[str]] = {}
        for each in self.operator or ():
            name, equals, capabilities = each.rpartition("=")
            who = _named(name if equals else self.name or "operator")
            wanted.setdefault(who, []).extend(capabilities.split(","))
        for name, granted in wanted.items():
            yield NatsUser(name, _of_operator(name, granted, contracts), OPERATORS)


def permissions(
    who: Who,
    shape: Annotated[
        AccountShape,
        typer.Option(
            help="One account for all, or one for each service: what that closes is told in "
            "docs/operate/permissions.md.",
        ),
    ] = AccountShape.USERS,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON; its `config` is for nats-server, if every user has a key.",
        ),
    ] = False,
) -> None:
    """The least rights of a service, of operators or of the admin runtime, for nats.conf."""
    users = who.users()
    settings = in_one_account(users) if shape is AccountShape.USERS else in_accounts(users)
    if json:
        told = [_connecting(user, shape) for user in users]
        print_json({"shape": shape.value, "users": told, "config": json_of(settings)})
        return
    print_text("\n".join(_headings(users, shape)))
    print_text(text_of(settings).removesuffix("\n"))


def _of_operator(
    name: str, capabilities: Sequence[str], contracts: Sequence[ServiceContract]
) -> Rights:
    parts = []
    for capability in capabilities:
        if capability == _STREAM:
            parts.append(grants.of_log_reader(name))
        elif capability == _QUEUES:
            parts.append(grants.of_queue_keeper(name, contracts))
        elif capability in _CAPABILITIES:
            needed = _CAPABILITIES[capability]
            asked = [method for method, rpc in RPCS.items() if rpc.needs is needed]
            asked += _ASKED_WITH_CHANGES if needed is Capability.MUTATE else ()
            parts.append(grants.of_operator(name, asked))
        else:
            known = ", ".join((*_CAPABILITIES, _QUEUES, _STREAM))
            raise typer.BadParameter(f"{capability!r} is none of {known}", param_hint="--operator")
    return reduce(Rights.__or__, parts)


def _of_service(contract: ServiceContract) -> NatsUser:
    own = grants.of_service(contract)
    return NatsUser(contract.service, own, contract.service, is_service=True)


def _contract(named: str) -> ServiceContract:
    file = Path(named)
    return read_contract(file) if file.is_file() else load_service(named).contract


def _key(given: str) -> tuple[str, str]:
    """What is wrong is not quoted: it may be a seed."""
    name, equals, key = given.partition("=")
    if not equals or not key.startswith("U"):
        raise typer.BadParameter(
            "it reads USER=KEY, with the public key of a user, beginning with U",
            param_hint="--nkey",
        )
    return name, key


def _named(name: str) -> str:
    try:
        return check_token("user", name)
    except InvalidToken as error:
        raise typer.BadParameter(str(error)) from None


def _connecting(user: NatsUser, shape: AccountShape) -> dict[str, Any]:
    """How it connects, so that its rights fit."""
    of_account = {"account": user.account} if shape is AccountShape.ACCOUNTS else {}
    if user.account == SYSTEM:
        return {"name": user.name, "account": user.account}
    prefixes = {"inboxPrefix": inbox_of(user.name), "apiPrefix": _api_prefix(user, shape)}
    return {"name": user.name, **of_account, **prefixes}


def _api_prefix(user: NatsUser, shape: AccountShape) -> str:
    is_guest = shape is AccountShape.ACCOUNTS and user.account != PLATFORM
    return PLATFORM_API if is_guest else grants.API


def _headings(users: Iterable[NatsUser], shape: AccountShape) -> Iterator[str]:
    for user in users:
        if user.account == SYSTEM:
            yield f"# {user.name} is for --system-account"
            continue
        prefix = _api_prefix(user, shape)
        api = "" if prefix == grants.API else f" --api-prefix '{prefix}'"
        yield f"# {user.name} connects with --inbox-prefix {inbox_of(user.name)}{api}"
