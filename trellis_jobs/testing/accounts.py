"""A log of its own for every test: an account of a real server, which no other test ever gets.

Accounts see nothing of each other, so whatever a test leaves behind, workers that still run
included, cannot touch the next. A fresh account costs nothing until streams are made in it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.testing.warm_up import WarmUp

if TYPE_CHECKING:
    from collections.abc import Iterator

# One that was used holds about half a megabyte of the server's memory until the server ends.
PER_SERVER: Final = 100
_AHEAD: Final = 10


@dataclass(slots=True)
class _Running:
    """A server; `given` of its accounts were given away, `in_use` are not back yet."""

    server: EmbeddedServer
    warm_up: WarmUp
    accounts: int
    given: int = 0
    in_use: int = 0

    @classmethod
    def start(cls, accounts: int) -> _Running:
        running = cls(EmbeddedServer.start(config=_config(accounts)), WarmUp(), accounts)
        for number in range(min(_AHEAD, accounts)):
            running.warm_up.want(running.url(number))
        return running

    def url(self, number: int) -> str:
        return f"nats://test-{number}:test-{number}@{HOST}:{self.server.port}"

    @property
    def is_used_up(self) -> bool:
        return self.given == self.accounts

    def give(self) -> str:
        if self.given + _AHEAD < self.accounts:
            self.warm_up.want(self.url(self.given + _AHEAD))
        self.given, self.in_use = self.given + 1, self.in_use + 1
        return self.url(self.given - 1)

    def end(self) -> None:
        """At once: a goodbye would write all its streams to a disk that is about to be wiped."""
        self.warm_up.stop()
        self.server.kill()
        self.server.stop()


class Accounts:
    """Starts a server when the first account is asked for, and another when all are given away."""

    def __init__(self, per_server: int = PER_SERVER) -> None:
        self._per_server = per_server
        self._running: list[_Running] = []

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The URL of an account that nobody has used."""
        running = self._with_room()
        try:
            yield running.give()
        finally:
            running.in_use -= 1
            if running.is_used_up and running.in_use == 0 and running in self._running:
                self._running.remove(running)
                running.end()

    def close(self) -> None:
        while self._running:
            self._running.pop().end()

    def _with_room(self) -> _Running:
        if not self._running or self._running[-1].is_used_up:
            self._running.append(_Running.start(self._per_server))
        return self._running[-1]


def _config(count: int) -> str:
    lines = (
        f"  test-{n}: {{ jetstream: enabled, users: [{{ user: test-{n}, password: test-{n} }}] }}"
        for n in range(count)
    )
    return "\n".join(("accounts {", *lines, "}"))
