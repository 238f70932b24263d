"""The users of a NATS server and their permissions, in two forms of its configuration.

users       one account for all users, which are separated by subject permissions
accounts    the streams and the admin runtime are in PLATFORM, and each service has an account: it
            can reach only what PLATFORM exports to it, even through reply subjects (design D20)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.permissions.conf import Commented, FromEnvironment
from trellis_jobs.contract.permissions.grants import API, Grant, Permissions
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PLATFORM: Final = "PLATFORM"
OPERATORS: Final = "OPERATORS"
SYSTEM: Final = "SYS"
RESERVED: Final = frozenset({PLATFORM, OPERATORS, SYSTEM})
# PLATFORM's JetStream API in other accounts, where `$JS.API` is the account's own JetStream.
PLATFORM_API: Final = f"$JS.{PLATFORM}.API"
_PULL: Final = f"{API}.CONSUMER.MSG.NEXT."

# Enough for a service with hundreds of processes, and below the limits of a server.
SERVICE_LIMITS: Final = {"max_connections": 2_000, "max_subscriptions": 200_000}

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NatsUser:
    """`account` is used only with an account per service. `nkey` is its public key, if any."""

    name: str
    permissions: Permissions
    account: str = PLATFORM
    nkey: str | None = None
    is_service: bool = False


def check_users(users: Iterable[NatsUser]) -> None:
    """Raises DeclarationError if two users would share an account or a password by mistake."""
    by_variable: dict[str, str] = {}
    for user in users:
        if user.is_service and user.account in RESERVED:
            raise DeclarationError(
                f"{user.name!r} is a reserved account: the service needs another name"
            )
        other = by_variable.setdefault(_variable(user), user.name)
        if user.nkey is None and other != user.name:
            raise DeclarationError(
                f"{other!r} and {user.name!r} would have the same password, ${_variable(user)}: "
                "use keys (--nkey), or rename one of them"
            )


def single_account(users: Iterable[NatsUser]) -> Settings:
    """All users in one account, except those of the system account."""
    everyone = list(users)
    of_system = [_user(each) for each in everyone if each.account == SYSTEM]
    others = [_user(each) for each in everyone if each.account != SYSTEM]
    settings: Settings = {"authorization": {"users": others}}
    if of_system:
        settings |= {"accounts": {SYSTEM: {"users": of_system}}, "system_account": SYSTEM}
    return settings


def account_per_service(users: Iterable[NatsUser]) -> Settings:
    """An account for each service. Users share its imports, limited by their own permissions."""
    accounts: dict[str, list[NatsUser]] = {PLATFORM: []}
    for user in users:
        accounts.setdefault(user.account, []).append(user)
    hosts = accounts.pop(PLATFORM)
    needs = {account: list(_imported_grants(guests)) for account, guests in accounts.items()}
    platform: Settings = {
        "jetstream": "enabled",
        "exports": [_exports(account, grant) for account in needs for grant in needs[account]],
        "users": [_user(each) for each in hosts],
    }
    guests = {
        account: _without_empty(
            {
                **_limits(account, accounts[account]),
                "imports": [_imports(grant) for grant in needs[account]],
                "users": users,
            }
        )
        for account, users in (
            (account, [_user(_with_imported_subjects(each)) for each in members])
            for account, members in accounts.items()
        )
    }
    settings: Settings = {"accounts": {PLATFORM: _without_empty(platform), **guests}}
    return settings | ({"system_account": SYSTEM} if SYSTEM in guests else {})


def _limits(account: str, members: Iterable[NatsUser]) -> Settings:
    """The limits of a service's account; a worker process has 2 connections.

    Its messages and consumers count for PLATFORM, because servers have no JetStream limits for
    accounts that import JetStream.
    """
    if account in RESERVED or not any(member.is_service for member in members):
        return {}
    return {"limits": dict(SERVICE_LIMITS)}


def imported_subject(subject: str) -> str:
    """The name of a PLATFORM subject in other accounts."""
    return f"{PLATFORM_API}{subject.removeprefix(API)}" if subject.startswith(API) else subject


def _user(user: NatsUser) -> Settings:
    password = FromEnvironment(_variable(user))
    known_by = {"nkey": user.nkey} if user.nkey else {"user": user.name, "password": password}
    return {**known_by, "permissions": _permissions(user.permissions)}


def _variable(user: NatsUser) -> str:
    return f"{re.sub(r'[^A-Za-z0-9]', '_', user.name).upper()}_PASSWORD"


def _permissions(permissions: Permissions) -> Settings:
    publish = [Commented(each.purpose, each.publish) for each in permissions.grants if each.publish]
    subscribe = [
        Commented(each.purpose, each.subscribe) for each in permissions.grants if each.subscribe
    ]
    return {
        "publish": {
            "allow": publish,
            **({"deny": list(permissions.denied)} if permissions.denied else {}),
        },
        "subscribe": {"allow": subscribe},
        **({"allow_responses": True} if permissions.allow_responses else {}),
    }


def _with_imported_subjects(user: NatsUser) -> NatsUser:
    grants = tuple(
        replace(grant, publish=tuple(map(imported_subject, grant.publish)))
        for grant in user.permissions.grants
    )
    denied = tuple(map(imported_subject, user.permissions.denied))
    return replace(user, permissions=replace(user.permissions, grants=grants, denied=denied))


def _imported_grants(guests: Iterable[NatsUser]) -> Iterator[Grant]:
    """The grants that an account imports from PLATFORM, each subject once."""
    publish, subscribe = set[str](), set[str]()
    for grant in (
        grant for guest in guests for grant in guest.permissions.grants if not grant.is_local
    ):
        needed = replace(
            grant,
            publish=tuple(each for each in grant.publish if each not in publish),
            subscribe=tuple(each for each in grant.subscribe if each not in subscribe),
        )
        publish.update(needed.publish)
        subscribe.update(needed.subscribe)
        if needed.publish or needed.subscribe:
            yield needed


def _exports(account: str, grant: Grant) -> Commented:
    services = [{"service": subject, **_response_type(subject)} for subject in grant.publish]
    streams = [{"stream": subject} for subject in grant.subscribe]
    allowed = {"accounts": [account]}
    return Commented(
        f"{account}: {grant.purpose}", tuple({**each, **allowed} for each in (*services, *streams))
    )


def _response_type(subject: str) -> Settings:
    """A pull request gets one response per message."""
    return {"response_type": "Stream"} if subject.startswith(_PULL) else {}


def _imports(grant: Grant) -> Commented:
    services = [
        {"service": {"account": PLATFORM, "subject": subject}, **_renamed(subject)}
        for subject in grant.publish
    ]
    streams = [{"stream": {"account": PLATFORM, "subject": subject}} for subject in grant.subscribe]
    return Commented(grant.purpose, (*services, *streams))


def _renamed(subject: str) -> Settings:
    name = imported_subject(subject)
    return {} if name == subject else {"to": name}


def _without_empty(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if value}
