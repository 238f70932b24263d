"""Which operations this daemon runs: those that no daemon owns, or whose owner has gone silent."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jobs_admin.operations import operation as moves
from jobs_admin.operations.run import OUTAGES, Run
from trellis_jobs.errors import InfrastructureMissing, NotPermitted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from jobs_admin.operations.operation import Operation
    from jobs_admin.operations.records import Stored
    from jobs_admin.operations.run import RunContext

log = logging.getLogger(__name__)

POLL_INTERVAL: Final = 2.0
# How often an owner writes its record: several times within the lease, and often enough to watch.
BEATS_A_LEASE: Final = 5
LONGEST_BEAT: Final = 1.0
AT_ONCE: Final = 4
# A daemon that stops waits no longer than this, in seconds, for a server that does not answer.
RELEASE_TIMEOUT: Final = 2.0


class Runner:
    """`instance` is this daemon's name in the records; `lease`: after so long without a change of
    a record, by this process's own clock, its owner has lost the operation. `until_possible`:
    nothing is claimed before it returns, as while the projection is rebuilt.
    """

    def __init__(
        self,
        tools: RunContext,
        instance: str,
        lease: timedelta,
        monotonic: Callable[[], float],
        until_possible: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._tools = tools
        self._until_possible = until_possible
        self._instance = instance
        self._lease = lease.total_seconds()
        self._monotonic = monotonic
        self._started = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._over: set[str] = set()
        self._seen: dict[str, tuple[int, float]] = {}

    def look_now(self) -> None:
        """An operation was started: it need not wait for the next look."""
        self._started.set()

    async def run(self) -> None:
        try:
            while True:
                if self._until_possible is not None:
                    await self._until_possible()
                self._started.clear()
                await self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(POLL_INTERVAL, self._lease)):
                        await self._started.wait()
        finally:
            await self._leave()

    async def _look(self) -> None:
        try:
            listed = await self._tools.records.subjects()
            # The records of finished operations expire: forget those that are gone.
            self._over &= listed
            self._seen = {each: seen for each, seen in self._seen.items() if each in listed}
            found = await self._tools.records.read_many(listed - self._over)
        except (InfrastructureMissing, NotPermitted):
            return  # Whoever starts an operation is told.
        for stored in found:
            operation = stored.operation
            if operation.is_over:
                self._over.add(stored.subject)
                self._seen.pop(stored.subject, None)
            elif operation.id not in self._running and len(self._running) < AT_ONCE:
                await self._try_to_claim(stored)

    async def _try_to_claim(self, stored: Stored) -> None:
        claimed = moves.claim(
            stored.operation,
            self._instance,
            self._tools.now(),
            lease_is_over=self._is_silent(stored),
        )
        written = None if claimed is None else await self._tools.records.write(claimed, stored)
        if written is not None:
            _tell("runs", written.operation)
            task = asyncio.create_task(self._carry_out(Run(written, self._tools)))
            self._running[written.operation.id] = task

    def _is_silent(self, stored: Stored) -> bool:
        now, name = self._monotonic(), stored.subject
        revision, since = self._seen.get(name, (0, now))
        if revision != stored.revision:
            since = now
        self._seen[name] = (stored.revision, since)
        return now - since >= self._lease

    async def _carry_out(self, run: Run) -> None:
        try:
            await run.go()
            _tell(f"is {run.operation.state.value}:", run.operation)
        except asyncio.CancelledError:
            # Without a server the record stays as it is: another daemon claims it after the lease.
            with suppress(TimeoutError, *OUTAGES):
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await run.release()
            raise
        except OUTAGES as error:
            log.warning("operation %s pauses: %s", run.operation.id, error)
            with suppress(*OUTAGES):
                await run.release()
        except Exception as error:
            log.exception("operation %s failed", run.operation.id)
            await run.fail(f"{type(error).__name__}: {error}")
        finally:
            del self._running[run.operation.id]

    async def _leave(self) -> None:
        for task in (running := list(self._running.values())):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _tell(what: str, operation: Operation) -> None:
    log.info(
        "operation %s %s %s by %s, %d of %d jobs done",
        operation.id,
        what,
        operation.verb.value,
        operation.by,
        operation.done,
        operation.total,
        extra={"operation": operation.id, "by": operation.by, "reason": operation.reason},
    )
