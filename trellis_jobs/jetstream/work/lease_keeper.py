"""Renew deliveries and slots, and send heartbeats, from a thread and a connection of their own.

A handler that blocks the event loop cannot be renewed from that loop: it would be started a second
time elsewhere although it is alive and connected. For the same reason its worker would be taken
for dead if its heartbeats came from that loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
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
_LOOKS_PER_RENEWAL: Final = 2
_RETRY_AFTER: Final = 1.0
_JOIN_TIMEOUT: Final = 2.0
# A timer may end a little early; the beat is not put off to the next pass for that.
_EARLY: Final = 0.95


class Pulse(Protocol):
    """The heartbeats of a worker, and the seconds from one to the next."""

    @property
    def interval(self) -> float: ...

    async def beat(self, connection: Connection, *, stopping: bool = False) -> None: ...


@dataclass(eq=False, slots=True)
class Lease:
    """One delivery that is ours as long as it is renewed; shared by two threads, field by field."""

    reply: str
    seconds: float
    renewed_at: float

    def gap(self, now: float) -> float:
        return now - self.renewed_at

    def has_lapsed(self, now: float) -> bool:
        return self.gap(now) > self.seconds

    def is_due(self, now: float) -> bool:
        """Time to renew; never after a lapse, when the message may be another's (design D7)."""
        return self.seconds / RENEWALS_PER_LEASE <= self.gap(now) <= self.seconds


class LeaseKeeper:
    """`interval`: the seconds in which the shortest lease is to be renewed.

    The `pulse` beats in the same pass that renews the leases. That is what makes the death of a
    worker certain: after its last beat no lease is renewed for longer than a third of its time, so
    when the server delivers its jobs again, that beat is older than two thirds of the lease.
    `alongside` run in the thread for as long as it does, connected or not.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        interval: float,
        pulse: Pulse | None = None,
        *,
        alongside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self._connect = connect
        self._now = now
        self._monotonic = monotonic
        self._pulse = pulse
        self._beaten_at: float | None = None
        self._alongside = alongside
        self._pause = interval / _LOOKS_PER_RENEWAL
        if pulse is not None:
            self._pause = min(self._pause, pulse.interval)
        self._leases: dict[Lease, None] = {}
        self._slots: dict[SlotLease, None] = {}
        self._thread = threading.Thread(target=self._run, name="trellis-jobs-leases", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_ended = False
        self._news = asyncio.Event()

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

    def hurry(self) -> None:
        """Something is due sooner than at the next look."""
        if self._loop is not None:
            with suppress(RuntimeError):  # its thread has ended, perhaps just now
                self._loop.call_soon_threadsafe(self._news.set)

    async def stop(self) -> None:
        self._has_ended = True
        self.hurry()
        await asyncio.to_thread(self._thread.join, _JOIN_TIMEOUT)

    def _run(self) -> None:
        asyncio.run(self._do_everything())

    async def _do_everything(self) -> None:
        self._loop = asyncio.get_running_loop()
        others = [asyncio.create_task(work()) for work in self._alongside]
        try:
            await self._keep_renewing()
        finally:
            for other in others:
                other.cancel()

    async def _keep_renewing(self) -> None:
        while not self._has_ended:
            try:
                connection = await self._connect()
            except InfrastructureError as error:
                log.warning(
                    "leases cannot be renewed, retrying in %g s: %s",
                    _RETRY_AFTER,
                    error,
                    extra={"error": str(error)},
                )
                await self._rest(_RETRY_AFTER)
                continue
            try:
                await self._renew_over(connection)
            except Exception:
                # A thread that ended would cost every running job of this worker its lease.
                log.exception("renewing leases failed unexpectedly; connecting again")
                await self._rest(_RETRY_AFTER)
            finally:
                await connection.close()

    async def _renew_over(self, connection: Connection) -> None:
        bucket = KeyBucket(connection, self._now)
        renewals: set[asyncio.Task[None]] = set()
        try:
            while not self._has_ended:
                now = self._monotonic()
                for lease in list(self._leases):
                    if lease.is_due(now) and connection.is_up:
                        await self._renew(connection, lease, now)
                for slot in list(self._slots):
                    if slot.is_due(now) and connection.is_up:
                        # Side by side: a contended key must not hold up the others.
                        renewals.add(asyncio.create_task(self._renew_slot(bucket, slot)))
                renewals = {renewal for renewal in renewals if not renewal.done()}
                await self._beat(connection, now)
                await self._rest(self._pause)
            if self._pulse is not None and connection.is_up:
                await self._pulse.beat(connection, stopping=True)
        finally:
            for renewal in renewals:
                renewal.cancel()

    async def _beat(self, connection: Connection, now: float) -> None:
        if self._pulse is None or not connection.is_up:
            return
        if self._beaten_at is None or now - self._beaten_at >= _EARLY * self._pulse.interval:
            await self._pulse.beat(connection)
            self._beaten_at = now

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

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()
