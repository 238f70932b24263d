"""The worker of one queue: pulls jobs into free slots, and runs up to `concurrency` at once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.other_contract import contract_digest
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.log.end_notices import EndNotices
from trellis_jobs.jetstream.work.delayed_naks import DelayedNaks
from trellis_jobs.jetstream.work.puller import WorkPuller
from trellis_jobs.model.settlement import Nak
from trellis_jobs.worker.attempt import AttemptRunner
from trellis_jobs.worker.capacity import Capacity, CapacitySlot
from trellis_jobs.worker.claim import Claimer
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.contract_gate import ContractGate
from trellis_jobs.worker.lease_monitor import watch_leases
from trellis_jobs.worker.parking import Parking
from trellis_jobs.worker.running_job import RunningJob, StopReason
from trellis_jobs.worker.slot_acquirer import SlotAcquirer, WaitForKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.worker.handlers import Handler
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# Seconds between checks for lost pull requests and for a deleted consumer.
_POLL_INTERVAL: Final = 1.0
# Request more jobs when an eighth of the slots is free or no request is open. That keeps the
# requests few and the slots busy.
_TOP_UP_FRACTION: Final = 8


class QueueWorker:
    """Duties:

    1. request deliveries while slots are free;
    2. run each delivery as one attempt, or pass it to the attempt that still runs here;
    3. watch the leases of running attempts;
    4. pass on hints that a running or waiting job has ended;
    5. park deliveries whose key is taken, and start them when the key changes;
    6. put deliveries back that arrive while the worker is paused or stopping.
    """

    def __init__(
        self,
        connection: Connection,
        service: str,
        handler: Handler,
        concurrency: int,
        keys: KeyCoordinator | None,
        environment: Environment,
    ) -> None:
        self.handler = handler
        self.concurrency = concurrency
        self.running: dict[str, RunningJob] = {}
        self._keys = keys
        self._unwatch_keys: Callable[[], Awaitable[None]] | None = None
        self._parking: Parking | None = None
        self._connection = connection
        self._service = service
        self._naks = DelayedNaks(connection, environment.now, environment.monotonic)
        self._work = WorkPuller(
            connection, service, handler.queue, self._receive, environment.monotonic, self._naks
        )
        self._notices = EndNotices(connection, service, handler.queue.name, self._hint_end)
        self._is_started = False
        self._accepting = False
        self._subscription_lock = asyncio.Lock()
        self._capacity = Capacity(concurrency, self._request_deliveries)
        self.contract = contract_digest(self._work.contract)

    async def open(self) -> float:
        """Sets up the consumer and the subscriptions. Returns the server's ack_wait in seconds."""
        await self._work.open()
        await self._notices.open()
        if self._keys is not None:
            self._unwatch_keys = await self._keys.watch(self._hint_key)
        return self._work.ack_wait.total_seconds()

    def start(self, context: WorkerContext) -> None:
        self._context = context
        slot_acquirer = None if self._keys is None else SlotAcquirer(self._keys, context)
        self._claimer = Claimer(self.handler.queue, context, self.running, slot_acquirer)
        contract_gate = ContractGate(
            self.handler.queue, self._work, context.environment, self._claimer.version_gate
        )
        self._attempts = AttemptRunner(self.handler, context, self.running, contract_gate)
        if slot_acquirer is not None:
            self._parking = Parking(
                self._claimer, slot_acquirer, context, self._capacity, self._run
            )
        self._is_started = True
        self._connection.on_reconnect(self._reconnected)
        context.background.spawn(self._keep_requesting())
        context.background.spawn(watch_leases(self.running, context, self.handler.queue.key_policy))
        self.start_accepting()

    def start_accepting(self) -> None:
        self._accepting = True
        if self._parking is not None:
            self._parking.open()
        self._context.background.spawn(self.sync_subscription())

    def stop_accepting(self) -> None:
        """Takes no new work. Deliveries that still arrive are put back without being started."""
        self._accepting = False
        if self._parking is not None:
            self._parking.close()
        self._context.background.spawn(self.sync_subscription())

    async def sync_subscription(self) -> None:
        """Subscribes or unsubscribes, and returns when the server has done it."""
        async with self._subscription_lock:
            if self._accepting:
                await self._work.subscribe()
            else:
                await self._work.unsubscribe()
        self._request_deliveries()

    @property
    def is_idle(self) -> bool:
        return self._capacity.is_idle and (self._parking is None or self._parking.is_empty)

    @property
    def held_jobs(self) -> tuple[str, ...]:
        """The ids of jobs that were delivered and wait for their keys."""
        return () if self._parking is None else self._parking.job_ids

    async def until_idle(self) -> None:
        await self._capacity.until_idle()

    def interrupt(self) -> None:
        for running in list(self.running.values()):
            running.stop(StopReason.SHUTDOWN)

    async def hand_back(self) -> None:
        """Puts the jobs of handlers back that ignored their interruption."""
        for running in list(self.running.values()):
            log.error(
                "the handler of job %s ignored its cancellation while the worker stops; the job is "
                "put back and may start elsewhere while this handler still runs",
                running.attempt_context.job.job_id,
                extra={"job": running.attempt_context.job.job_id},
            )
            await self._attempts.hand_back(running)

    async def backlog(self) -> int:
        return await self._work.backlog()

    async def close(self) -> None:
        self._naks.flush()
        await self._notices.close()
        if self._unwatch_keys is not None:
            await self._unwatch_keys()
        await self._work.unsubscribe()

    async def _keep_requesting(self) -> None:
        while True:
            self._work.forget_overdue_pulls()
            if not self._work.is_gone or await self._reopen():
                self._request_deliveries()
            await asyncio.sleep(_POLL_INTERVAL)

    async def _reopen(self) -> bool:
        """Sets up a consumer again that was deleted, alone or with its stream."""
        if not self._connection.is_connected:
            return False
        try:
            await self._work.open()
        except JobsError as error:
            log.error(
                "no jobs of queue %s can run until its stream or consumer exists again: %s",
                self.handler.queue.name,
                error,
                extra={"queue": self.handler.queue.name, "error": str(error)},
            )
            return False
        return True

    def _request_size(self) -> int:
        """How many deliveries to request now.

        0 while few slots are free and earlier requests are still open.
        """
        free = self._capacity.free - self._work.outstanding
        if free <= 0 or not (self._accepting and self._work.is_subscribed):
            return 0
        if self._claimer.version_gate.is_recent:
            return min(1, free) if self._work.outstanding == 0 else 0
        worthwhile = max(1, self.concurrency // _TOP_UP_FRACTION)
        return free if free >= worthwhile or self._work.outstanding == 0 else 0

    def _request_deliveries(self) -> None:
        """Requests deliveries for the free slots. During an outage a later call does it."""
        size = self._request_size()
        if size and self._connection.is_connected and not self._work.is_gone:
            self._work.request(size)

    def _receive(self, delivery: Delivery | None) -> None:
        """Called with None when a pull request ended, so that more may be requested."""
        if delivery is None:
            self._request_deliveries()
            return
        running = self.running.get(delivery.job.job_id)
        if running is not None and running.is_same_message(delivery):
            self._context.background.spawn(running.adopt_redelivery(delivery))
        elif not self._accepting:
            self._context.background.spawn(delivery.answer(Nak()))
        elif self._parking is not None and self._parking.park_if_key_waits(delivery):
            self._request_deliveries()
        elif self._capacity.try_acquire():
            self._context.background.spawn(self._attempt(delivery))
        else:
            self._receive_without_slot(delivery)

    def _receive_without_slot(self, delivery: Delivery) -> None:
        if self._parking is None or not self._parking.park_without_slot(delivery):
            self._context.background.spawn(delivery.answer(Nak()))

    async def _attempt(self, delivery: Delivery) -> None:
        slot = CapacitySlot(self._capacity)
        try:
            claimed = await self._claimer.claim(delivery)
            if isinstance(claimed, Claimed):
                await self._attempts.run(delivery, claimed, slot.release)
        finally:
            slot.done()
        if isinstance(claimed, WaitForKey) and self._parking is not None:
            self._parking.park(delivery, claimed.key)

    async def _run(self, delivery: Delivery, claimed: Claimed) -> None:
        """Runs a parked job that has acquired its key and a slot."""
        slot = CapacitySlot(self._capacity)
        try:
            await self._attempts.run(delivery, claimed, slot.release)
        finally:
            slot.done()

    def _hint_end(self, job_id: str) -> None:
        """Ignores notices between open() and start(): no job can be running then."""
        if not self._is_started:
            return
        self._context.end_hints.add(job_id)
        running = self.running.get(job_id)
        if running is not None:
            running.hint_end()
        elif self._parking is not None:
            self._parking.hint_end(job_id)

    def _hint_key(self, key_hash: str) -> None:
        if self._parking is not None:
            self._parking.hint(key_hash)

    def _reconnected(self) -> None:
        self._naks.reconnected()
        self._work.forget_pulls()
        self._request_deliveries()
        # Hints that were sent during the outage are lost.
        for job_id in self.running:
            self._hint_end(job_id)
        if self._parking is not None:
            self._parking.hint_all()
