"""The worker of one queue in a process with a total limit for all its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.settlement import Nak
from trellis_jobs.model.slot_plan import QueueDemand, QueueRequests
from trellis_jobs.worker.queue_worker import QueueWorker
from trellis_jobs.worker.shared_capacity import SharedCapacity

if TYPE_CHECKING:
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.worker.queue_scheduler import QueueScheduler


class OrderedQueueWorker(QueueWorker):
    """Requests deliveries when the scheduler of its process decides to, one request at a time."""

    _capacity: SharedCapacity

    def join(self, scheduler: QueueScheduler) -> None:
        """Shares the slots of the scheduler with the other queues. Called before `open`."""
        self._scheduler = scheduler
        self._requests = QueueRequests()
        self._capacity = SharedCapacity(
            self.concurrency,
            scheduler.schedule,
            shared_free=lambda: scheduler.free,
            on_start=lambda: scheduler.count_start(self),
        )
        scheduler.queues.append(self)

    @property
    def slots_in_use(self) -> int:
        return self._capacity.in_use

    @property
    def slots_reserved(self) -> int:
        return self._requests.reserved

    def demand(self) -> QueueDemand | None:
        if self._accepting and not self._work.is_subscribed:
            return None
        is_open = self._accepting and self._connection.is_connected and not self._work.is_gone
        if self._work.outstanding == 0:
            self._requests = self._requests.end() if is_open else QueueRequests()
        room = self._capacity.limit - self._capacity.in_use - self._requests.reserved
        return QueueDemand(self._requests, room, self._capacity.waiting, is_open)

    def grant(self) -> None:
        self._capacity.grant()

    def poll(self, count: int) -> None:
        if self._claimer.version_gate.is_recent:
            count = 1
        self._work.request(count, wait=False)
        if self._work.outstanding:
            self._requests = self._requests.poll(count)

    def listen(self) -> None:
        self._work.request(1)
        if self._work.outstanding:
            self._requests = self._requests.listen()

    def forget_emptiness(self) -> None:
        self._requests = self._requests.forget_emptiness()

    def _request_deliveries(self) -> None:
        self._scheduler.schedule()

    def _receive(self, delivery: Delivery | None) -> None:
        if delivery is not None:
            self._requests = self._requests.receive()
        super()._receive(delivery)

    def _receive_without_slot(self, delivery: Delivery) -> None:
        """Puts the job back, so that another process with a free slot can start it at once."""
        self._context.background.spawn(delivery.answer(Nak()))

    def _reconnected(self) -> None:
        self._requests = QueueRequests()
        super()._reconnected()
