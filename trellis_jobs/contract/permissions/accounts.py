"""Users of a NATS server with their rights, in two shapes of its configuration.

users       one account for all; what each may is a matter of subjects
accounts    the streams and the admin runtime in PLATFORM, and an account for each service: what
            PLATFORM exports to it is all it can reach, also by way of a reply subject (design D20)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.permissions.conf import FromEnvironment, Noted
from trellis_jobs.contract.permissions.grants import API, Grant, Rights
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PLATFORM: Final = "PLATFORM"
OPERATORS: Final = "OPERATORS"
SYSTEM: Final = "SYS"
RESERVED: Final = frozenset({PLATFORM, OPERATORS, SYSTEM})
# Of JetStream in PLATFORM, for other accounts: what they ask on `$JS.API` is their own.
PLATFORM_API: Final = f"$JS.{PLATFORM}.API"
_PULL: Final = f"{API}.CONSUMER.MSG.NEXT."

# More than a service of hundreds of processes needs, and less than a server can hold.
SERVICE_LIMITS: Final = {"max_connections": 2_000, "max_subscriptions": 200_000}

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NatsUser:
    """`account`: where it lives where there are accounts; `nkey`: its public key, if it has one."""

    name: str
    rights: Rights
    account: str = PLATFORM
    nkey: str | None = None
    is_service: bool = False


def check_users(users: Iterable[NatsUser]) -> None:
    """Raises DeclarationError where one could take what is another's."""
    by_variable: dict[str, str] = {}
    for user in users:
        if user.is_service and user.account in RESERVED:
            raise DeclarationError(
                f"{user.name!r} is an account of its own: no service can be called so"
            )
        other = by_variable.setdefault(_variable(user), user.name)
        if user.nkey is None and other != user.name:
            raise DeclarationError(
                f"{other!r} and {user.name!r} would have the same password, ${_variable(user)}: "
                "give them keys (--nkey), or one of them another name"
            )


def in_one_account(users: Iterable[NatsUser]) -> Settings:
    """But for the server's own account, which is always one of its own."""
    everybody = list(users)
    of_system = [_user(each) for each in everybody if each.account == SYSTEM]
    others = [_user(each) for each in everybody if each.account != SYSTEM]
    settings: Settings = {"authorization": {"users": others}}
    if of_system:
        settings |= {"accounts": {SYSTEM: {"users": of_system}}, "system_account": SYSTEM}
    return settings


def in_accounts(users: Iterable[NatsUser]) -> Settings:
    """Users of one account share what it imports; each is held to its own rights within it."""
    accounts: dict[str, list[NatsUser]] = {PLATFORM: []}
    for user in users:
        accounts.setdefault(user.account, []).append(user)
    hosts = accounts.pop(PLATFORM)
    needs = {account: list(_needs(guests)) for account, guests in accounts.items()}
    platform: Settings = {
        "jetstream": "enabled",
        "exports": [_exports(account, grant) for account in needs for grant in needs[account]],
        "users": [_user(each) for each in hosts],
    }
    guests = {
        account: _without_nothing(
            {
                **_limits(account, accounts[account]),
                "imports": [_imports(grant) for grant in needs[account]],
                "users": users,
            }
        )
        for account, users in (
            (account, [_user(_through_imports(each)) for each in members])
            for account, members in accounts.items()
        )
    }
    settings: Settings = {"accounts": {PLATFORM: _without_nothing(platform), **guests}}
    return settings | ({"system_account": SYSTEM} if SYSTEM in guests else {})


def _limits(account: str, members: Iterable[NatsUser]) -> Settings:
    """Of a service: a worker process has 2 connections, and some subscriptions for each queue.

    What it stores, and how many consumers it makes, counts as PLATFORM's: servers have no limit for
    one of several accounts that import JetStream.
    """
    if account in RESERVED or not any(member.is_service for member in members):
        return {}
    return {"limits": dict(SERVICE_LIMITS)}


def imported_as(subject: str) -> str:
    """What an account other than PLATFORM calls it."""
    return f"{PLATFORM_API}{subject.removeprefix(API)}" if subject.startswith(API) else subject


def _user(user: NatsUser) -> Settings:
    password = FromEnvironment(_variable(user))
    known_by = {"nkey": user.nkey} if user.nkey else {"user": user.name, "password": password}
    return {**known_by, "permissions": _permissions(user.rights)}


def _variable(user: NatsUser) -> str:
    return f"{re.sub(r'[^A-Za-z0-9]', '_', user.name).upper()}_PASSWORD"


def _permissions(rights: Rights) -> Settings:
    asks = [Noted(each.purpose, each.publish) for each in rights.grants if each.publish]
    hears = [Noted(each.purpose, each.subscribe) for each in rights.grants if each.subscribe]
    return {
        "publish": {"allow": asks, **({"deny": list(rights.denied)} if rights.denied else {})},
        "subscribe": {"allow": hears},
        **({"allow_responses": True} if rights.answers else {}),
    }


def _through_imports(user: NatsUser) -> NatsUser:
    grants = tuple(
        replace(grant, publish=tuple(map(imported_as, grant.publish)))
        for grant in user.rights.grants
    )
    denied = tuple(map(imported_as, user.rights.denied))
    return replace(user, rights=replace(user.rights, grants=grants, denied=denied))


def _needs(guests: Iterable[NatsUser]) -> Iterator[Grant]:
    """Of the platform: every subject once, whoever of the account it is for."""
    asked, heard = set[str](), set[str]()
    for grant in (grant for guest in guests for grant in guest.rights.grants if not grant.is_local):
        needed = replace(
            grant,
            publish=tuple(each for each in grant.publish if each not in asked),
            subscribe=tuple(each for each in grant.subscribe if each not in heard),
        )
        asked.update(needed.publish)
        heard.update(needed.subscribe)
        if needed.publish or needed.subscribe:
            yield needed


def _exports(account: str, grant: Grant) -> Noted:
    asked = [{"service": subject, **_answering(subject)} for subject in grant.publish]
    heard = [{"stream": subject} for subject in grant.subscribe]
    allowed = {"accounts": [account]}
    return Noted(
        f"{account}: {grant.purpose}", tuple({**each, **allowed} for each in (*asked, *heard))
    )


def _answering(subject: str) -> Settings:
    """A pull is answered by every message it brings."""
    return {"response_type": "Stream"} if subject.startswith(_PULL) else {}


def _imports(grant: Grant) -> Noted:
    asked = [
        {"service": {"account": PLATFORM, "subject": subject}, **_renamed(subject)}
        for subject in grant.publish
    ]
    heard = [{"stream": {"account": PLATFORM, "subject": subject}} for subject in grant.subscribe]
    return Noted(grant.purpose, (*asked, *heard))


def _renamed(subject: str) -> Settings:
    name = imported_as(subject)
    return {} if name == subject else {"to": name}


def _without_nothing(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if value}
