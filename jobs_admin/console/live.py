"""Tells open pages that something they show has changed.

A page gets a hint and no data: it reads again. One request to the admin runtime waits for changes
(`Jobs.Changes`), however many pages are open, and none when no page is.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from jobs_admin.api.views.changes import ChangesView

log = logging.getLogger(__name__)

# A page that names this topic is told of every change.
EVERYTHING: Final = "all"
# A page that shows what is not in the log names this topic, and reads again every second.
EVERY_SECOND: Final = "second"
# The same every five seconds, for pages that cost more or whose facts change slowly.
SLOWLY: Final = "slowly"
_TICK: Final = 1.0
_TICKS_OF_SLOW: Final = 5
_WAIT: Final = 2.0
_RETRY_DELAY: Final = 2.0
# After a hint the next one waits for this long, so that a busy log causes few reads.
_MIN_INTERVAL: Final = 0.5


@dataclass(eq=False, slots=True)
class Subscriber:
    """An open page. `sequence` is the log position of the newest hint for it."""

    topics: frozenset[str]
    sequence: int
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def hint(self, sequence: int) -> None:
        self.sequence = max(self.sequence, sequence)
        self.changed.set()

    async def next(self) -> int:
        await self.changed.wait()
        self.changed.clear()
        return self.sequence


class LiveHints:
    """`fetch` is `Jobs.Changes`: it waits for changes after a sequence, for some seconds."""

    def __init__(self, fetch: Callable[[int, float], Awaitable[ChangesView]]) -> None:
        self._fetch = fetch
        self._subscribers: set[Subscriber] = set()
        self._sequence = 0
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def sequence(self) -> int:
        """A position of the log: a page that is made now shows everything up to it."""
        return self._sequence

    @contextmanager
    def subscribed(self, topics: frozenset[str], after: int | None) -> Iterator[Subscriber]:
        """`after` is the position that a page has seen: when it was made, or by its last hint."""
        subscriber = Subscriber(topics, after or 0)
        self._subscribers.add(subscriber)
        if after is not None and after != self._sequence:
            subscriber.hint(self._sequence)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._tick())]
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)
            if not self._subscribers:
                self.stop()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _tick(self) -> None:
        for tick in itertools.count(1):
            await asyncio.sleep(_TICK)
            is_slow = tick % _TICKS_OF_SLOW == 0
            for each in self._subscribers:
                if EVERY_SECOND in each.topics or (is_slow and SLOWLY in each.topics):
                    each.hint(self._sequence)

    async def _follow(self) -> None:
        while True:
            try:
                changes = await self._fetch(self._sequence, _WAIT)
            except JobsError as error:
                log.info("no hints about changes: %s; trying again", error)
                await asyncio.sleep(_RETRY_DELAY)
                continue
            if changes.seq > self._sequence:
                self._spread(changes)
                await asyncio.sleep(_MIN_INTERVAL)

    def _spread(self, changes: ChangesView) -> None:
        self._sequence = changes.seq
        names = changes.topics()
        for each in self._subscribers:
            if EVERYTHING in each.topics or names is None or each.topics & names:
                each.hint(changes.seq)
