"""Gives every test a separate log: an unused account of a real server.

Accounts are isolated from each other, so nothing that a test leaves behind, not even a running
worker, can affect the next one. An account costs nothing until streams are created in it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.testing.warm_up import WarmUp

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each used account takes about half a megabyte of the server's memory until the server stops.
ACCOUNTS_PER_SERVER: Final = 100
_PREPARED_AHEAD: Final = 10


@dataclass(slots=True)
class _Running:
    """A server, of whose accounts `issued` were given to tests and `in_use` still are."""

    server: EmbeddedServer
    warm_up: WarmUp
    accounts: int
    issued: int = 0
    in_use: int = 0

    @classmethod
    def start(cls, accounts: int) -> _Running:
        running = cls(EmbeddedServer.start(config=_config(accounts)), WarmUp(), accounts)
        for number in range(min(_PREPARED_AHEAD, accounts)):
            running.warm_up.prepare(running.url(number))
        return running

    def url(self, number: int) -> str:
        return f"nats://test-{number}:test-{number}@{HOST}:{self.server.port}"

    @property
    def is_exhausted(self) -> bool:
        return self.issued == self.accounts

    def issue(self) -> str:
        if self.issued + _PREPARED_AHEAD < self.accounts:
            self.warm_up.prepare(self.url(self.issued + _PREPARED_AHEAD))
        self.issued, self.in_use = self.issued + 1, self.in_use + 1
        return self.url(self.issued - 1)

    def end(self) -> None:
        """Kills the server: a clean stop would only write streams to a deleted folder."""
        self.warm_up.stop()
        self.server.kill()
        self.server.stop()


class Accounts:
    """Starts a server for the first account, and another one when all accounts are used."""

    def __init__(self, per_server: int = ACCOUNTS_PER_SERVER) -> None:
        self._per_server = per_server
        self._running: list[_Running] = []

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Yields the URL of an unused account."""
        running = self._server_with_room()
        try:
            yield running.issue()
        finally:
            running.in_use -= 1
            if running.is_exhausted and running.in_use == 0 and running in self._running:
                self._running.remove(running)
                running.end()

    def close(self) -> None:
        while self._running:
            self._running.pop().end()

    def _server_with_room(self) -> _Running:
        if not self._running or self._running[-1].is_exhausted:
            self._running.append(_Running.start(self._per_server))
        return self._running[-1]


def _config(count: int) -> str:
    lines = (
        f"  test-{n}: {{ jetstream: enabled, users: [{{ user: test-{n}, password: test-{n} }}] }}"
        for n in range(count)
    )
    return "\n".join(("accounts {", *lines, "}"))
