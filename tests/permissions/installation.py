"""A server with exactly the configuration that `trellis-jobs permissions` prints."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.cli.command import environment
from tests.cli.shell import Ended, run_to_end, shell
from tests.support.facts import DEADLINE
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connect_options import API_PREFIX, ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection

SHAPES: Final = ("users", "accounts")
NAMES: Final = ("house", "garden", "orchard")
SERVICES: Final = tuple(f"tests.permissions.services:{name}" for name in NAMES)
WHO: Final = (
    *(word for service in SERVICES for word in ("--service", service)),
    *("--operator", "reader=read", "--operator", "changer=mutate", "--operator", "watcher=stream"),
    *("--operator", "keeper=read,queues", "--operator", "both=read,mutate"),
    *("--operator", "foreman=workers", "--operator", "director=worker-records"),
    *("--operator", "maker=create"),
    *("--admin", "--console", "--provisioner", "--backup"),
)
# Users without any restrictions: one sees it all, one is alone in the account of the garden.
ROOT_USER: Final = "root"
CARELESS: Final = "careless"
KNOW_THEIR_INBOX: Final = (*NAMES, "jobs-admin")
# What a service is refused when it starts: it goes on with what an operator made.
ASKED_IN_VAIN: Final = re.compile(r"\$JS\.(PLATFORM\.)?API\.(INFO|STREAM\.INFO\.JOBS)")


def printed(*arguments: str) -> str:
    ended = shell("permissions", *arguments)
    assert ended.code == 0, ended.err
    return ended.out


@dataclass(frozen=True)
class Installation:
    """Every user's password is its name."""

    shape: str
    server: EmbeddedServer
    prefixes: dict[str, str]

    def access(self, name: str) -> ConnectOptions:
        """Services and the admin runtime know their inbox by themselves."""
        return ConnectOptions(
            servers=self.server.url,
            user=name,
            password=name,
            inbox_prefix=None if name in KNOW_THEIR_INBOX else self.inbox(name),
            api_prefix=self.prefixes.get(name, API_PREFIX),
        )

    def inbox(self, name: str) -> str:
        return f"_INBOX_{name}" if name in self.prefixes else "_INBOX"

    def command(self, name: str, *arguments: str) -> Ended:
        return run_to_end(*arguments, env=self.environment(name))

    def environment(self, name: str) -> dict[str, str]:
        """Of a command that is run as this user."""
        access = self.access(name)
        told = {
            "NATS_URL": self.server.url.replace("://", f"://{name}:{name}@"),
            "NATS_API_PREFIX": access.api_prefix,
            "NATS_INBOX_PREFIX": access.inbox_prefix or "",
        }
        return environment(told)

    @asynccontextmanager
    async def connection(self, name: str) -> AsyncIterator[Connection]:
        access = self.access(name).with_inbox_prefix(self.inbox(name))
        connection = await Connection.open(access, name=name, timeout=DEADLINE)
        try:
            yield connection
        finally:
            await connection.close()

    def violations(self, name: str) -> set[str]:
        """What this user tried and might not, but for what a service tries when it starts."""
        said = re.findall(
            rf'user:{name}" - \w+ Violation - \w+ "([^"]+)', self.server.log.read_text()
        )
        return {subject for subject in said if not ASKED_IN_VAIN.fullmatch(subject)}


@contextmanager
def installed(shape: str, more: Mapping[str, str] | None = None) -> Iterator[Installation]:
    """`more`: subjects to which these users may publish beside what is printed, by their names."""
    told: dict[str, Any] = json.loads(printed(*WHO, "--shape", shape, "--json"))
    prefixes = {user["name"]: str(user["apiPrefix"]) for user in told["users"]}
    passwords = {f"{re.sub(r'-', '_', name).upper()}_PASSWORD": name for name in prefixes}
    with pytest.MonkeyPatch.context() as patch:
        for variable, password in passwords.items():
            patch.setenv(variable, password)
        config = _with_others(printed(*WHO, "--shape", shape))
        for name, subject in (more or {}).items():
            config = _with_another_right(config, name, subject)
        with EmbeddedServer.start(config=config) as server:
            made = Installation(shape, server, prefixes)
            for service in SERVICES:
                applied = made.command("provisioner", "infra", "apply", "--app", service, "--yes")
                assert applied.code == 0, applied.err
            yield made


def _with_another_right(config: str, name: str, subject: str) -> str:
    before, user, after = config.partition(f'user: "{name}"')
    assert user, f"{name} is not printed"
    return before + user + after.replace("allow: [", f'allow: [ "{subject}"', 1)


def _with_others(config: str) -> str:
    """A user without a permissions block may do anything in its account."""
    anything = "{{ user: {0}, password: {0} }}".format
    config = config.replace("users: [", f"users: [ {anything(ROOT_USER)}", 1)
    before, garden, after = config.partition("\n  garden: {")
    if garden:
        after = after.replace("users: [", f"users: [ {anything(CARELESS)}", 1)
    return before + garden + after
