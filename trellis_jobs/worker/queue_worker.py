"""One queue's worker: at most `concurrency` handlers at once, jobs pulled only into free seats."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.other_contract import digest_of_contract
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.log.end_notices import EndNotices
from trellis_jobs.jetstream.work.puller import WorkPuller
from trellis_jobs.model.settlement import Nak
from trellis_jobs.worker.attempt import AttemptRunner
from trellis_jobs.worker.capacity import Capacity, Seat
from trellis_jobs.worker.claim import Claims
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.contract_gate import OtherContracts
from trellis_jobs.worker.lease_monitor import watch_leases
from trellis_jobs.worker.parking import Parking
from trellis_jobs.worker.running_job import RunningJob, StopReason
from trellis_jobs.worker.slot_acquirer import SlotAcquirer, Waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.worker.handlers import Handler
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# How often a pull that was lost on the way is looked for; everything else is seen at once.
_LOOK: Final = 1.0
# Ask again once an eighth of the seats is free, or nothing is owed: few requests, and no seat is
# long empty.
_TOP_UP_SHARE: Final = 8


class QueueWorker:
    """Duties:

    1. keep deliveries coming while there is room, and only then;
    2. run each delivery as one attempt; adopt one whose job still runs here;
    3. keep the leases of running attempts;
    4. pass on hints that a job has ended, while it runs or waits;
    5. park what has to wait for its key, and wake it when the key changes;
    6. hand back, unstarted, what arrives when no work is wanted.
    """

    def __init__(
        self,
        connection: Connection,
        service: str,
        handler: Handler,
        concurrency: int,
        keys: KeyCoordinator | None,
        monotonic: Callable[[], float],
    ) -> None:
        self.handler = handler
        self.concurrency = concurrency
        self.running: dict[str, RunningJob] = {}
        self._keys = keys
        self._unwatch_keys: Callable[[], Awaitable[None]] | None = None
        self._parking: Parking | None = None
        self._connection = connection
        self._service = service
        self._work = WorkPuller(connection, service, handler.queue, self._receive, monotonic)
        self._notices = EndNotices(connection, service, handler.queue.name, self._hint_end)
        self._is_started = False
        self._accepting = False
        self._attuning = asyncio.Lock()
        self._seats = Capacity(concurrency, self._top_up)
        self.contract = digest_of_contract(self._work.contract)

    async def open(self) -> float:
        """Ensure the consumer and listen; returns the lease in force, in seconds."""
        await self._work.open()
        await self._notices.open()
        if self._keys is not None:
            self._unwatch_keys = await self._keys.watch(self._hint_key)
        return self._work.ack_wait.total_seconds()

    def start(self, tools: WorkerContext) -> None:
        self._tools = tools
        desk = None if self._keys is None else SlotAcquirer(self._keys, tools)
        self._claims = Claims(self.handler.queue, tools, self.running, desk)
        others = OtherContracts(
            self.handler.queue, self._work, tools.environment, self._claims.newer
        )
        self._attempts = AttemptRunner(self.handler, tools, self.running, others)
        if desk is not None:
            self._parking = Parking(self._claims, desk, tools, self._seats, self._run)
        self._is_started = True
        self._connection.on_reconnect(self._reconnected)
        tools.background.spawn(self._keep_looking())
        tools.background.spawn(watch_leases(self.running, tools, self.handler.queue.key_policy))
        self.accept()

    def accept(self) -> None:
        self._accepting = True
        if self._parking is not None:
            self._parking.open()
        self._tools.background.spawn(self.sync_subscription())

    def refuse(self) -> None:
        """No new work: what is still under way is handed back without being started."""
        self._accepting = False
        if self._parking is not None:
            self._parking.close()
        self._tools.background.spawn(self.sync_subscription())

    async def sync_subscription(self) -> None:
        """Listen to the work queue, or not, as was decided last; done when the server knows."""
        async with self._attuning:
            if self._accepting:
                await self._work.subscribe()
            else:
                await self._work.unsubscribe()
        self._top_up()

    @property
    def is_idle(self) -> bool:
        return self._seats.is_empty and (self._parking is None or self._parking.is_empty)

    async def until_idle(self) -> None:
        await self._seats.until_empty()

    def interrupt(self) -> None:
        for running in list(self.running.values()):
            running.stop(StopReason.SHUTDOWN)

    async def abandon(self) -> None:
        """Handlers that ignored their interruption: their jobs go back without them."""
        for running in list(self.running.values()):
            log.error(
                "the handler of job %s did not stop when the worker did; the job goes back to its "
                "queue while the handler still runs",
                running.terms.job.job_id,
                extra={"job": running.terms.job.job_id},
            )
            await self._attempts.abandon(running)

    async def backlog(self) -> int:
        return await self._work.backlog()

    async def close(self) -> None:
        await self._notices.close()
        if self._unwatch_keys is not None:
            await self._unwatch_keys()
        await self._work.unsubscribe()

    async def _keep_looking(self) -> None:
        while True:
            self._work.forget_overdue_pulls()
            if not self._work.is_gone or await self._is_found_again():
                self._top_up()
            await asyncio.sleep(_LOOK)

    async def _is_found_again(self) -> bool:
        """A consumer, or a stream, that was deleted and made again takes up where the log is."""
        if not self._connection.is_connected:
            return False
        try:
            await self._work.open()
        except JobsError as error:
            log.error(
                "queue %s cannot be worked on until its stream or consumer is back: %s",
                self.handler.queue.name,
                error,
                extra={"queue": self.handler.queue.name, "error": str(error)},
            )
            return False
        return True

    def _room(self) -> int:
        """How many deliveries to ask for now: none while few seats are free and some are owed."""
        free = self._seats.free - self._work.outstanding
        if free <= 0 or not (self._accepting and self._work.is_subscribed):
            return 0
        if self._claims.newer.met_lately:
            return min(1, free) if self._work.outstanding == 0 else 0
        worthwhile = max(1, self.concurrency // _TOP_UP_SHARE)
        return free if free >= worthwhile or self._work.outstanding == 0 else 0

    def _top_up(self) -> None:
        """Ask for as many deliveries as there is room for; who cannot be asked is asked later."""
        room = self._room()
        if room and self._connection.is_connected and not self._work.is_gone:
            self._work.request(room)

    def _receive(self, delivery: Delivery | None) -> None:
        """None: less is owed than before, so there may be room for more."""
        if delivery is None:
            self._top_up()
            return
        running = self.running.get(delivery.job.job_id)
        if running is not None and running.stems_from(delivery):
            self._tools.background.spawn(running.meet_again(delivery))
        elif not self._accepting:
            self._tools.background.spawn(delivery.answer(Nak()))
        elif self._parking is not None and self._parking.join(delivery):
            self._top_up()
        elif self._seats.take_now():
            self._tools.background.spawn(self._attempt(delivery))
        elif self._parking is None or not self._parking.queue_up(delivery):
            self._tools.background.spawn(delivery.answer(Nak()))

    async def _attempt(self, delivery: Delivery) -> None:
        seat = Seat(self._seats)
        try:
            claimed = await self._claims.claim(delivery)
            if isinstance(claimed, Claimed):
                await self._attempts.run(delivery, claimed, seat.rise)
        finally:
            seat.leave()
        if isinstance(claimed, Waits) and self._parking is not None:
            self._parking.park(delivery, claimed.key)

    async def _run(self, delivery: Delivery, claimed: Claimed) -> None:
        """A parked job got its key, and a seat."""
        seat = Seat(self._seats)
        try:
            await self._attempts.run(delivery, claimed, seat.rise)
        finally:
            seat.leave()

    def _hint_end(self, job_id: str) -> None:
        """Notices come from open() on; before start() nothing was claimed that they could be of."""
        if not self._is_started:
            return
        self._tools.end_hints.add(job_id)
        running = self.running.get(job_id)
        if running is not None:
            running.hint_end()
        elif self._parking is not None:
            self._parking.hint_end(job_id)

    def _hint_key(self, key_hash: str) -> None:
        if self._parking is not None:
            self._parking.hint(key_hash)

    def _reconnected(self) -> None:
        self._work.forget_pulls()
        self._top_up()
        # Hints sent while the connection was down are lost: look.
        for job_id in self.running:
            self._hint_end(job_id)
        if self._parking is not None:
            self._parking.hint_all()
