"""The users file: who may use the console, with which roles.

    user  ann   operator,secrets  scrypt:32768:8:1:…     a person with a password
    user  bob   viewer                                   a person whom a proxy signs in
    token ci    viewer,create     sha256:…               a machine
    group oncall operator                                members of a group that a proxy names
    everyone    viewer                                   everyone whom a proxy signs in

Lines that begin with # are comments.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from jobs_admin.api.errors import ConfigError
from jobs_admin.console.auth.password_hash import InvalidHash, PasswordHash, TokenHash
from jobs_admin.console.users import Role, User

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

log = logging.getLogger(__name__)

_NO_ROLES: Final[frozenset[Role]] = frozenset()


@dataclass(frozen=True, slots=True)
class Users:
    """Everything that the file says. Everyone who has a role is also a viewer."""

    roles: Mapping[str, frozenset[Role]] = field(default_factory=dict)
    passwords: Mapping[str, PasswordHash] = field(default_factory=dict)
    tokens: Mapping[str, tuple[TokenHash, frozenset[Role]]] = field(default_factory=dict)
    groups: Mapping[str, frozenset[Role]] = field(default_factory=dict)
    everyone: frozenset[Role] = _NO_ROLES

    def person(self, name: str, groups: Iterable[str] = ()) -> User | None:
        """A person who is signed in; returns None for one without any role."""
        own = self.roles.get(name, _NO_ROLES) | self.everyone
        roles = own.union(*(self.groups.get(group, _NO_ROLES) for group in groups))
        return User(name, roles) if roles else None

    def machine(self, token: str) -> User | None:
        """Compares all tokens, so that the time says nothing about them."""
        found = [
            User(name, roles)
            for name, (known, roles) in self.tokens.items()
            if known.matches(token)
        ]
        return found[0] if found else None


class UsersFile:
    """Reads the file again when it has changed, so that a removed user is out at once."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError."""
        self._path = path
        self._seen = self._stamp()
        self._users = parse_users(self._read())

    def current(self) -> Users:
        """If the file has become unreadable or wrong, the last users that were read count."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._users = parse_users(self._read())
                log.info("read the users of the console again from %s", self._path)
            except ConfigError as error:
                log.error("the users of the console stay as they were: %s", error)
        return self._users

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the users file {self._path} cannot be read: {error}") from error


def parse_users(text: str) -> Users:
    """Raises ConfigError, which names the line and does not quote it."""
    users = _Lines()
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            users.add(words)
        except (InvalidHash, ValueError) as error:
            raise ConfigError(f"users file, line {number}: {error}") from None
    return Users(users.roles, users.passwords, users.tokens, users.groups, users.everyone)


class _Lines:
    """The lines that were read so far."""

    def __init__(self) -> None:
        self.roles: dict[str, frozenset[Role]] = {}
        self.passwords: dict[str, PasswordHash] = {}
        self.tokens: dict[str, tuple[TokenHash, frozenset[Role]]] = {}
        self.groups: dict[str, frozenset[Role]] = {}
        self.everyone = _NO_ROLES

    def add(self, words: Sequence[str]) -> None:
        match words:
            case ["user", name, roles]:
                _add(self.roles, name, parse_roles(roles))
            case ["user", name, roles, password]:
                _add(self.roles, name, parse_roles(roles))
                self.passwords[name] = PasswordHash.parse(password)
            case ["token", name, roles, token]:
                _add(self.tokens, name, (TokenHash.parse(token), parse_roles(roles)))
            case ["group", name, roles]:
                _add(self.groups, name, parse_roles(roles))
            case ["everyone", roles]:
                self.everyone = parse_roles(roles)
            case _:
                raise ValueError(
                    "use `user NAME ROLES [HASH]`, `token NAME ROLES HASH`, `group NAME ROLES` or "
                    "`everyone ROLES`"
                )


def _add(lines: dict[str, T], name: str, value: T) -> None:
    if name in lines:
        raise ValueError(f"{name} has two lines")
    lines[name] = value


def parse_roles(text: str) -> frozenset[Role]:
    """`operator,secrets`; every role includes `viewer`. Raises ValueError."""
    try:
        return frozenset(map(Role, text.split(","))) | {Role.VIEWER}
    except ValueError:
        known = ", ".join(Role)
        raise ValueError(f"{text!r} are not roles; they are {known}, separated by commas") from None
