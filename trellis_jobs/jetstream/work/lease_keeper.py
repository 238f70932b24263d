"""Renews deliveries and slots, and sends heartbeats, from a separate thread and connection.

A handler that blocks the event loop would also block renewals from that loop: another worker would
start the job a second time although the first is alive and connected. For the same reason the
worker would count as dead if it sent its heartbeats from that loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from trellis_jobs.errors import InfrastructureError, JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.keys.bucket import KeyBucket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.keys.slot_lease import SlotLease

log = logging.getLogger(__name__)

IN_PROGRESS: Final = b"+WPI"
RENEWALS_PER_LEASE: Final = 3
_PASSES_PER_RENEWAL: Final = 2
_RETRY_DELAY: Final = 1.0
_JOIN_TIMEOUT: Final = 5.0
# A timer may fire a little early; the heartbeat is still sent in that pass.
_TIMER_TOLERANCE: Final = 0.95


class HeartbeatSource(Protocol):
    """Sends the heartbeats of a worker every `interval` seconds."""

    @property
    def interval(self) -> float: ...

    async def beat(self, connection: Connection, *, stopping: bool = False) -> None: ...


class WorkerRecordKeeper(Protocol):
    """Keeps the record of a worker, see `trellis_jobs/worker/registration.py`."""

    async def run(self, connection: Connection) -> None:
        """Runs until it is cancelled."""

    async def finish(self, connection: Connection) -> None:
        """Is called after `run`, when the worker stops."""


@dataclass(eq=False, slots=True)
class Lease:
    """The lease of one delivery, valid while it is renewed.

    Two threads share it: each assignment of a field is atomic. It is not renewed after
    `renew_until`, which only queues with manual renewal set.
    """

    reply: str
    seconds: float
    renewed_at: float
    renew_until: float = inf

    def gap(self, now: float) -> float:
        return now - self.renewed_at

    def left(self, now: float) -> float:
        """Returns the seconds until the lease ends, unless it is renewed."""
        return self.seconds - self.gap(now)

    def has_lapsed(self, now: float) -> bool:
        return self.gap(now) > self.seconds

    def is_due(self, now: float) -> bool:
        """Returns whether to renew now; never after a lapse, because the server may have delivered
        the message to another worker by then (design D7).
        """
        is_in_time = self.seconds / RENEWALS_PER_LEASE <= self.gap(now) <= self.seconds
        return is_in_time and now < self.renew_until


class LeaseKeeper:
    """`interval`: the seconds in which the shortest lease must be renewed.

    The pass that renews the leases also sends the heartbeat. That makes the death of a worker
    certain: after its last heartbeat it renews no lease for longer than a third of the lease, so
    when the server redelivers its jobs, the heartbeat is older than two thirds of the lease.
    `background` coroutines run for the lifetime of the thread, connected or not.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        interval: float,
        heartbeats: HeartbeatSource | None = None,
        *,
        background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self._connect = connect
        self._now = now
        self._monotonic = monotonic
        self._heartbeats = heartbeats
        self._record: WorkerRecordKeeper | None = None
        self._last_beat_at: float | None = None
        self._background = background
        self._pass_interval = interval / _PASSES_PER_RENEWAL
        if heartbeats is not None:
            self._pass_interval = min(self._pass_interval, heartbeats.interval)
        self._leases: dict[Lease, None] = {}
        self._slots: dict[SlotLease, None] = {}
        self._thread = threading.Thread(target=self._run, name="trellis-jobs-leases", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._wake_up = asyncio.Event()

    def keep_record(self, record: WorkerRecordKeeper) -> None:
        """Call it before `start`."""
        self._record = record

    def start(self) -> None:
        self._thread.start()

    def keep(self, lease: Lease) -> None:
        self._leases[lease] = None

    def drop(self, lease: Lease) -> None:
        self._leases.pop(lease, None)

    def keep_slot(self, lease: SlotLease) -> None:
        self._slots[lease] = None

    def drop_slot(self, lease: SlotLease) -> None:
        self._slots.pop(lease, None)

    def wake(self) -> None:
        """Start the next pass now, because a renewal is due before its time."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the thread may have just ended
                self._loop.call_soon_threadsafe(self._wake_up.set)

    async def stop(self) -> None:
        self._is_stopping = True
        self.wake()
        await asyncio.to_thread(self._thread.join, _JOIN_TIMEOUT)

    def _run(self) -> None:
        asyncio.run(self._run_tasks())

    async def _run_tasks(self) -> None:
        self._loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(work()) for work in self._background]
        try:
            await self._keep_renewing()
        finally:
            for task in tasks:
                task.cancel()

    async def _keep_renewing(self) -> None:
        while not self._is_stopping:
            try:
                connection = await self._connect()
            except InfrastructureError as error:
                log.warning(
                    "leases cannot be renewed, retrying in %g s: %s",
                    _RETRY_DELAY,
                    error,
                    extra={"error": str(error)},
                )
                await self._wait(_RETRY_DELAY)
                continue
            try:
                await self._renew_until_stopped(connection)
            except Exception:
                # If the thread ended, every running job of this worker would lose its lease.
                log.exception("renewing leases failed unexpectedly; connecting again")
                await self._wait(_RETRY_DELAY)
            finally:
                await connection.close()

    async def _renew_until_stopped(self, connection: Connection) -> None:
        bucket = KeyBucket(connection, self._now)
        keeping_record = asyncio.create_task(self._keep_record(connection))
        renewals: set[asyncio.Task[None]] = set()
        try:
            while not self._is_stopping:
                now = self._monotonic()
                renewals = {renewal for renewal in renewals if not renewal.done()}
                if connection.is_connected:
                    await self._renew_leases(connection, now)
                    renewals |= self._renew_slots(bucket, now)
                await self._beat(connection, now)
                await self._wait(self._pass_interval)
            await _cancel_and_wait(keeping_record)
            await self._report_stop(connection)
        finally:
            for task in (keeping_record, *renewals):
                task.cancel()

    async def _renew_leases(self, connection: Connection, now: float) -> None:
        for lease in list(self._leases):
            if lease.is_due(now) and connection.is_connected:
                await self._renew(connection, lease, now)

    def _renew_slots(self, bucket: KeyBucket, now: float) -> set[asyncio.Task[None]]:
        """Concurrently, so that a contended key does not delay the others."""
        due = [slot for slot in list(self._slots) if slot.is_due(now)]
        return {asyncio.create_task(self._renew_slot(bucket, slot)) for slot in due}

    async def _report_stop(self, connection: Connection) -> None:
        if self._heartbeats is not None and connection.is_connected:
            await self._heartbeats.beat(connection, stopping=True)
        if self._record is not None and connection.is_connected:
            await self._record.finish(connection)

    async def _keep_record(self, connection: Connection) -> None:
        while self._record is not None:
            try:
                await self._record.run(connection)
            except Exception:
                # Without its record the worker would be declared dead while it runs jobs.
                log.exception("keeping the worker's record failed unexpectedly; trying again")
                await asyncio.sleep(_RETRY_DELAY)

    async def _beat(self, connection: Connection, now: float) -> None:
        if self._heartbeats is None or not connection.is_connected:
            return
        if (
            self._last_beat_at is None
            or now - self._last_beat_at >= _TIMER_TOLERANCE * self._heartbeats.interval
        ):
            await self._heartbeats.beat(connection)
            self._last_beat_at = now

    async def _renew(self, connection: Connection, lease: Lease, now: float) -> None:
        try:
            await connection.publish(lease.reply, IN_PROGRESS)
        except ConnectionLost as error:
            log.warning("a lease was not renewed: %s", error, extra={"error": str(error)})
        else:
            lease.renewed_at = now

    async def _renew_slot(self, bucket: KeyBucket, slot: SlotLease) -> None:
        try:
            await slot.renew(bucket, self._now, self._monotonic)
        except JobsError as error:
            log.warning(
                "the slot of key %s was not renewed: %s",
                slot.empty.display,
                error,
                extra={"key": slot.empty.display, "token": slot.token, "error": str(error)},
            )

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake_up.wait()
        except TimeoutError:
            return
        self._wake_up.clear()


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
