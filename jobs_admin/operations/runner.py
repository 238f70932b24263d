"""Claims and runs operations that no daemon owns, or whose owner's lease has expired."""

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
# An owner writes its record several times within the lease, and often enough to show progress.
WRITES_PER_LEASE: Final = 5
MAX_WRITE_INTERVAL: Final = 1.0
MAX_CONCURRENT: Final = 4
# How many seconds a stopping daemon waits for a server that does not answer.
RELEASE_TIMEOUT: Final = 2.0


class Runner:
    """`instance` is this daemon's name in the records. An owner loses an operation when its record
    has not changed for the time of `lease`, by this process's own clock. Nothing is claimed before
    `until_ready` returns, for example while the projection is being rebuilt.
    """

    def __init__(
        self,
        context: RunContext,
        instance: str,
        lease: timedelta,
        monotonic: Callable[[], float],
        until_ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._context = context
        self._until_possible = until_ready
        self._instance = instance
        self._lease = lease.total_seconds()
        self._monotonic = monotonic
        self._started = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._over: set[str] = set()
        self._seen: dict[str, tuple[int, float]] = {}

    def wake(self) -> None:
        """Check for operations at once, because one was started."""
        self._started.set()

    async def run(self) -> None:
        try:
            while True:
                if self._until_possible is not None:
                    await self._until_possible()
                self._started.clear()
                await self._claim_available()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(POLL_INTERVAL, self._lease)):
                        await self._started.wait()
        finally:
            await self._stop_all()

    async def _claim_available(self) -> None:
        try:
            listed = await self._context.records.subjects()
            # The records of finished operations expire: forget those that are gone.
            self._over &= listed
            self._seen = {each: seen for each, seen in self._seen.items() if each in listed}
            found = await self._context.records.read_many(listed - self._over)
        except (InfrastructureMissing, NotPermitted):
            return  # The request that starts an operation reports this.
        for stored in found:
            operation = stored.operation
            if operation.is_over:
                self._over.add(stored.subject)
                self._seen.pop(stored.subject, None)
            elif operation.id not in self._running and len(self._running) < MAX_CONCURRENT:
                await self._try_to_claim(stored)

    async def _try_to_claim(self, stored: Stored) -> None:
        claimed = moves.claim(
            stored.operation,
            self._instance,
            self._context.now(),
            lease_expired=self._lease_expired(stored),
        )
        written = None if claimed is None else await self._context.records.write(claimed, stored)
        if written is not None:
            _log_state("is running", written.operation)
            task = asyncio.create_task(self._carry_out(Run(written, self._context)))
            self._running[written.operation.id] = task

    def _lease_expired(self, stored: Stored) -> bool:
        now, name = self._monotonic(), stored.subject
        revision, since = self._seen.get(name, (0, now))
        if revision != stored.revision:
            since = now
        self._seen[name] = (stored.revision, since)
        return now - since >= self._lease

    async def _carry_out(self, run: Run) -> None:
        try:
            await run.execute()
            _log_state(f"is {run.operation.state.value}", run.operation)
        except asyncio.CancelledError:
            # Without a server the record stays, and another daemon claims it after the lease.
            with suppress(TimeoutError, *OUTAGES):
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await run.release()
            raise
        except OUTAGES as error:
            log.warning(
                "operation %s is interrupted and will be retried: %s", run.operation.id, error
            )
            with suppress(*OUTAGES):
                await run.release()
        except Exception as error:
            log.exception("operation %s failed", run.operation.id)
            await run.fail(f"{type(error).__name__}: {error}")
        finally:
            del self._running[run.operation.id]

    async def _stop_all(self) -> None:
        for task in (running := list(self._running.values())):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _log_state(what: str, operation: Operation) -> None:
    log.info(
        "operation %s (%s, by %s) %s: %d of %d jobs done",
        operation.id,
        operation.verb.value,
        operation.by,
        what,
        operation.done,
        operation.total,
        extra={"operation": operation.id, "by": operation.by, "reason": operation.reason},
    )
