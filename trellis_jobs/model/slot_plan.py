"""What a worker process with a total limit does with its free slots.

It polls: it asks the server for jobs in the order of its queues, without waiting, and reserves a
slot for each job that it asks for. When all queues are empty, it listens: one request for each
queue waits at the server for its next job. A listening request has no slot, so up to one job for
each queue but one can arrive without a slot. The worker puts these back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model.values import Value, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trellis_jobs.model.queue_order import QueueOrder


class QueueRequests(Value, frozen=True):
    """The open request of one queue, and whether the server had no more jobs for the last one.

    `polled` is how many jobs a poll asked for, and `received` how many of them have come.
    """

    polled: int = 0
    received: int = 0
    is_listening: bool = False
    is_empty: bool = False

    @property
    def is_open(self) -> bool:
        return self.polled > 0 or self.is_listening

    @property
    def reserved(self) -> int:
        return max(0, self.polled - self.received)

    def poll(self, count: int) -> QueueRequests:
        return QueueRequests(polled=count)

    def listen(self) -> QueueRequests:
        return replace(self, is_listening=True)

    def receive(self) -> QueueRequests:
        """A job has arrived."""
        if self.polled:
            return replace(self, received=self.received + 1)
        return QueueRequests()

    def end(self) -> QueueRequests:
        """The open request has ended: it got all jobs that it asked for, or there are no more."""
        if self.polled:
            return QueueRequests(is_empty=self.received < self.polled)
        return replace(self, is_listening=False)

    def forget_emptiness(self) -> QueueRequests:
        """All slots are in use: when one is free again, an empty queue may have jobs.

        A queue with a listening request is empty as long as the request gets no job.
        """
        return replace(self, is_empty=self.is_empty and self.is_listening)


class QueueDemand(Value, frozen=True):
    """One queue, as its worker sees it.

    `room` is how many more of its jobs may start by the queue's own limit, without the jobs that
    are `requests.reserved`. `waiting` is how many jobs in this process wait for a slot only.
    `is_open` is False while the worker takes no new jobs of the queue.
    """

    requests: QueueRequests
    room: int
    waiting: int = 0
    is_open: bool = True

    @property
    def may_have_jobs(self) -> bool:
        return self.is_open and not self.requests.is_empty


class Grant(Value, frozen=True):
    """Give a slot to the queue's first waiting job."""

    queue: int


class Poll(Value, frozen=True):
    """Ask the server for up to `count` jobs, without waiting for them."""

    queue: int
    count: int


class Listen(Value, frozen=True):
    """Ask the server for the next job, and wait for it."""

    queue: int


Step: TypeAlias = Grant | Poll | Listen


def plan(order: QueueOrder, free: int, queues: Sequence[QueueDemand]) -> Iterator[Step]:
    """Returns what to do with `free` slots, which are neither in use nor reserved."""
    slots = [0] * len(queues)
    for queue in _choose(order, free, queues):
        if queue is None:
            break
        slots[queue] += 1
    else:
        if sum(slots) < free:
            yield from (Listen(i) for i, q in enumerate(queues) if _should_listen(q, slots[i]))
    for index, demand in enumerate(queues):
        granted = min(slots[index], demand.waiting)
        yield from [Grant(index)] * granted
        if slots[index] > granted:
            yield Poll(index, slots[index] - granted)


def _choose(order: QueueOrder, free: int, queues: Sequence[QueueDemand]) -> Iterator[int | None]:
    """Returns a queue for each free slot, as long as queues may have jobs.

    It ends with None if the next queue has an open poll: the answer decides who gets the slot.
    """
    for index, queue in enumerate(queues):
        for _ in range(queue.requests.reserved):
            order = order.started(index)
    chosen = [0] * len(queues)
    for _ in range(free):
        candidates = [i for i, queue in enumerate(queues) if _may_start(queue, chosen[i])]
        if not candidates:
            return
        first = order.first(candidates)
        if chosen[first] >= queues[first].waiting and queues[first].requests.is_open:
            yield None
            return
        yield first
        chosen[first] += 1
        order = order.started(first)


def _may_start(queue: QueueDemand, slots: int) -> bool:
    """Whether one more slot than `slots` can be of use to the queue."""
    return slots < queue.room and (slots < queue.waiting or queue.may_have_jobs)


def _should_listen(queue: QueueDemand, slots: int) -> bool:
    requests = queue.requests
    return slots < queue.room and queue.is_open and requests.is_empty and not requests.is_open
