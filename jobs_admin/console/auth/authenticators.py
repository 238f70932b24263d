"""Who sent a request: the ways to sign in."""

from __future__ import annotations

import logging
from base64 import b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from jobs_admin.console.auth.addresses import TrustedProxies, throttle_name
from jobs_admin.console.auth.passwords import Passwords
from jobs_admin.console.auth.refusals import NotSignedIn, SignInRefused
from jobs_admin.console.users import ALL_ROLES, User

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import Headers

    from jobs_admin.console.auth.users_file import UsersFile

log = logging.getLogger(__name__)

# Without sign-in, changes are recorded as made in the console.
ANYONE: Final = User("console", ALL_ROLES)
_MAX_NAME: Final = 128


class Authenticator(Protocol):
    async def user_of(self, headers: Headers, peer: str) -> User | None:
        """Returns None if the request does not try to sign in so. Raises SignInRefused."""
        ...


@dataclass(frozen=True, slots=True)
class SignIn:
    """The ways to sign in, one after the other; `asks`: browsers ask for a password."""

    ways: Sequence[Authenticator]
    asks: bool

    async def user_of(self, headers: Headers, peer: str) -> User:
        for way in self.ways:
            user = await way.user_of(headers, peer)
            if user is not None:
                return user
        raise NotSignedIn("Sign in to use this console.", asks=self.asks)


class NoSignIn:
    async def user_of(self, _headers: Headers, _peer: str) -> User:
        return ANYONE


@dataclass(frozen=True, slots=True)
class BasicAuthenticator:
    users: UsersFile
    proxies: TrustedProxies
    passwords: Passwords = field(default_factory=Passwords)

    async def user_of(self, headers: Headers, peer: str) -> User | None:
        given = _credentials(headers, "basic")
        if given is None:
            return None
        name, password = _name_and_password(given)
        users = self.users.current()
        known = users.passwords.get(name)
        # Some proxies add a line after those that the client sent: the last one counts most.
        forwarded_for = ", ".join(headers.getlist("x-forwarded-for"))
        client = self.proxies.client(peer, forwarded_for)
        is_right = await self.passwords.matches(name, password, known, throttle_name(client))
        user = users.person(name) if is_right else None
        if user is None:
            # A name that is not known may be a password, typed into the wrong field.
            who = name if known is not None else "an unknown user"
            log.warning("sign-in to the console refused: %s, from %s", who, client)
            raise NotSignedIn("Wrong user name or password.", asks=True)
        return user


@dataclass(frozen=True, slots=True)
class TokenAuthenticator:
    users: UsersFile

    async def user_of(self, headers: Headers, peer: str) -> User | None:
        token = _credentials(headers, "bearer")
        if token is None:
            return None
        user = self.users.current().machine(token)
        if user is None:
            log.warning("sign-in to the console refused: an unknown token, from %s", peer)
            raise NotSignedIn("This token is not known here.", asks=False)
        return user


@dataclass(frozen=True, slots=True)
class ProxyAuthenticator:
    """`user_header` and `groups_header` count only if a trusted proxy sent the request."""

    users: UsersFile
    proxies: TrustedProxies
    user_header: str
    groups_header: str

    async def user_of(self, headers: Headers, peer: str) -> User | None:
        names = headers.getlist(self.user_header)
        if not names:
            return None
        if not self.proxies.trusts(peer):
            log.warning("sign-in to the console refused: %s is not a trusted proxy", peer)
            raise SignInRefused(
                f"{self.user_header} counts only if a trusted proxy sends it. Open the console "
                "through the proxy."
            )
        name = _as_utf8(names[0]).strip()
        if len(names) > 1 or not name.isprintable() or not 0 < len(name) <= _MAX_NAME:
            raise SignInRefused(f"The proxy must send {self.user_header} once, with a user's name.")
        groups = [
            group.strip()
            for line in headers.getlist(self.groups_header)
            for group in _as_utf8(line).split(",")
        ]
        user = self.users.current().person(name, groups)
        if user is None:
            raise SignInRefused(
                f"{name} has no role in this console. Ask the person who runs it for one."
            )
        return user


def _as_utf8(header: str) -> str:
    """Servers read headers as Latin-1; proxies send names in UTF-8."""
    return header.encode("latin-1").decode("utf-8", "replace")


def _credentials(headers: Headers, scheme: str) -> str | None:
    given, _, rest = headers.get("authorization", "").partition(" ")
    return rest.strip() if given.lower() == scheme else None


def _name_and_password(given: str) -> tuple[str, str]:
    try:
        name, colon, password = b64decode(given, validate=True).decode("utf-8").partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise NotSignedIn("The user name and password cannot be read.", asks=True)
    return name, password
