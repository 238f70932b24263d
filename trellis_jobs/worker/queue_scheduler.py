"""Shares the slots of a worker process with a total limit between its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trellis_jobs.model.slot_plan import Grant, Listen, Poll, QueueDemand, plan

if TYPE_CHECKING:
    from trellis_jobs.model.queue_order import SharedLimit


class ScheduledQueue(Protocol):
    """A queue of the process. Its jobs and requests use slots of the shared limit."""

    @property
    def slots_in_use(self) -> int: ...

    @property
    def slots_reserved(self) -> int: ...

    def demand(self) -> QueueDemand | None:
        """Returns None while the queue cannot say whether it takes jobs."""

    def grant(self) -> None: ...

    def poll(self, count: int) -> None: ...

    def listen(self) -> None: ...

    def forget_emptiness(self) -> None: ...


class QueueScheduler:
    """Carries out the plan of `model/slot_plan.py`. `queues` are in the order of the limit."""

    def __init__(self, limit: SharedLimit) -> None:
        self.queues: list[ScheduledQueue] = []
        self._total = limit.total
        self._order = limit.order

    @property
    def free(self) -> int:
        """How many slots are neither in use nor reserved for jobs that a poll asked for."""
        return self._total - sum(q.slots_in_use + q.slots_reserved for q in self.queues)

    def count_start(self, queue: ScheduledQueue) -> None:
        """Called when a job of the queue has got a slot."""
        self._order = self._order.started(self.queues.index(queue))
        if sum(each.slots_in_use for each in self.queues) >= self._total:
            for each in self.queues:
                each.forget_emptiness()

    def schedule(self) -> None:
        """Called whenever a slot, a request or a queue has changed."""
        demands = [demand for queue in self.queues if (demand := queue.demand()) is not None]
        if len(demands) < len(self.queues):
            # While queues subscribe, the first one that is ready is not always the most important.
            return
        for step in list(plan(self._order, self.free, demands)):
            queue = self.queues[step.queue]
            match step:
                case Grant():
                    queue.grant()
                case Poll(_, count):
                    queue.poll(count)
                case Listen():
                    queue.listen()
