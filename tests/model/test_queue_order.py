"""Which queue gets a free slot: strict order, weights, and the limit of the whole process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from trellis_jobs.model.queue_order import QueueOrder, StrictOrder, weighted_order
from trellis_jobs.model.slot_plan import Grant, Listen, Poll, QueueDemand, QueueRequests, plan

WEIGHTS = st.lists(st.integers(1, 20), min_size=1, max_size=5)
CHOICES = st.integers(0, 1_000_000)


@dataclass
class Process:
    """A worker process and its server: what each queue has there, and what runs here."""

    order: QueueOrder
    total: int
    backlog: list[int]
    own_limits: list[int]
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    requests: list[QueueRequests] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    put_back: int = 0

    def __post_init__(self) -> None:
        empty = [0] * len(self.backlog)
        self.running, self.waiting = list(empty), self.waiting or list(empty)
        self.requests = [QueueRequests() for _ in self.backlog]

    @property
    def reserved(self) -> int:
        return sum(each.reserved for each in self.requests)

    @property
    def free(self) -> int:
        return self.total - sum(self.running) - self.reserved

    def room(self, queue: int) -> int:
        return self.own_limits[queue] - self.running[queue] - self.requests[queue].reserved

    def schedule(self) -> None:
        queues = [
            QueueDemand(requests, self.room(queue), self.waiting[queue])
            for queue, requests in enumerate(self.requests)
        ]
        for step in list(plan(self.order, self.free, queues)):
            match step:
                case Grant(queue):
                    self.waiting[queue] -= 1
                    self.start(queue)
                case Poll(queue, count):
                    self.requests[queue] = self.requests[queue].poll(count)
                case Listen(queue):
                    self.requests[queue] = self.requests[queue].listen()
        self.check()

    def start(self, queue: int) -> None:
        self.running[queue] += 1
        self.starts.append(queue)
        self.order = self.order.started(queue)
        if sum(self.running) == self.total:
            self.requests = [each.forget_emptiness() for each in self.requests]

    def deliver(self, queue: int) -> None:
        self.backlog[queue] -= 1
        self.requests[queue] = self.requests[queue].receive()
        if self.free > 0 and self.room(queue) > 0:
            self.start(queue)
        else:
            assert not self.requests[queue].polled, "a poll has reserved a slot for each job"
            self.put_back += 1
            self.backlog[queue] += 1

    def answerable(self) -> list[int]:
        return [
            queue
            for queue, each in enumerate(self.requests)
            if each.polled or (each.is_listening and self.backlog[queue])
        ]

    def answer(self, queue: int) -> None:
        """The server answers the open request of a queue."""
        polled = self.requests[queue].polled
        for _ in range(min(polled or 1, self.backlog[queue])):
            self.deliver(queue)
        self.requests[queue] = self.requests[queue].end()
        self.schedule()

    def settle(self) -> None:
        """The server answers everything that it can answer."""
        self.schedule()
        while self.answerable():
            self.answer(self.answerable()[0])

    def finish(self, choice: int) -> None:
        busy = [queue for queue, count in enumerate(self.running) if count]
        if busy:
            self.running[busy[choice % len(busy)]] -= 1
            self.schedule()

    def check(self) -> None:
        assert sum(self.running) + self.reserved <= self.total
        for queue in range(len(self.backlog)):
            assert self.room(queue) >= 0


def process(order: QueueOrder, total: int, backlog: list[int]) -> Process:
    return Process(order, total, backlog, [total] * len(backlog))


@given(
    st.booleans(),
    WEIGHTS,
    st.integers(1, 6),
    st.data(),
    st.lists(st.tuples(st.sampled_from(["job", "finish", "answer", "expire"]), CHOICES)),
)
def test_no_more_jobs_run_than_the_total_and_none_waits_beside_a_free_slot(
    strict: bool, weights: list[int], total: int, data: st.DataObject, events: list[tuple[str, int]]
) -> None:
    count = len(weights)
    numbers = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    order = StrictOrder() if strict else weighted_order(weights)
    limits = [each + 1 for each in data.draw(numbers)]
    made = Process(order, total, data.draw(numbers), limits, data.draw(numbers))
    for kind, choice in events:
        before = made.put_back
        match kind:
            case "job":
                made.backlog[choice % count] += 1
            case "finish":
                made.finish(choice)
            case "answer" if made.answerable():
                made.answer(made.answerable()[choice % len(made.answerable())])
            case "expire" if made.requests[choice % count].is_listening:
                made.requests[choice % count] = made.requests[choice % count].end()
                made.schedule()
        assert made.put_back - before <= 1
    made.settle()
    if made.free > 0:
        waits = [q for q in range(count) if made.room(q) and made.backlog[q] + made.waiting[q]]
        assert waits == []
        assert all(made.requests[q].is_listening for q in range(count) if made.room(q))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 4), st.lists(CHOICES))
def test_jobs_start_in_strict_order(backlog: list[int], total: int, finishes: list[int]) -> None:
    made, jobs = process(StrictOrder(), total, list(backlog)), sum(backlog)
    made.settle()
    for choice in [*finishes, *[0] * jobs]:
        made.finish(choice)
        made.settle()
    assert len(made.starts) == jobs
    assert made.starts == sorted(made.starts)


@given(st.integers(1, 3), st.integers(0, 5))
def test_a_job_of_an_important_queue_is_next_however_long_others_have_waited(
    total: int, later: int
) -> None:
    made = process(StrictOrder(), total, [0, 50])
    made.settle()
    for _ in range(later):
        made.finish(0)
        made.settle()
    made.backlog[0] += 1
    made.finish(0)
    made.settle()
    assert made.starts[-1] == 0


@given(WEIGHTS, st.integers(1, 6), st.integers(1, 200), st.lists(CHOICES))
def test_starts_follow_the_weights_while_all_queues_have_jobs(
    weights: list[int], total: int, starts: int, finishes: list[int]
) -> None:
    made = process(weighted_order(weights), total, [1_000] * len(weights))
    made.settle()
    choices = [*finishes, *[0] * starts][:starts]
    for choice in choices:
        made.finish(choice)
        made.settle()
    counted = Counter(made.starts)
    for queue, weight in enumerate(weights):
        share = len(made.starts) * weight / sum(weights)
        assert abs(counted[queue] - share) <= len(weights)


@given(WEIGHTS, st.lists(st.tuples(st.sampled_from(["job", "finish"]), CHOICES), max_size=80))
def test_with_weights_no_queue_starves(weights: list[int], events: list[tuple[str, int]]) -> None:
    """However others come and go, the last queue starts within one round of all weights."""
    made = process(weighted_order(weights), 1, [1_000] * len(weights))
    made.settle()
    for kind, choice in events:
        if kind == "job":
            made.backlog[choice % len(weights)] = choice % 3
        else:
            made.finish(choice)
        made.settle()
    made.backlog = [1_000] * len(weights)
    since = len(made.starts)
    longest = sum(weights) // min(weights) + 2 * len(weights)
    for _ in range(longest):
        made.finish(0)
        made.settle()
    assert set(made.starts[since:]) == set(range(len(weights)))


def test_weights_are_smooth() -> None:
    made = process(weighted_order([6, 3, 1]), 1, [100, 100, 100])
    made.settle()
    for _ in range(9):
        made.finish(0)
        made.settle()
    assert "".join("abc"[queue] for queue in made.starts) == "aabaabaabc"


def test_a_queue_without_jobs_saves_no_turns_for_later() -> None:
    made = process(weighted_order([1, 1]), 1, [100, 0])
    made.settle()
    for _ in range(50):
        made.finish(0)
        made.settle()
    made.backlog[1] = 100
    since = len(made.starts)
    for _ in range(20):
        made.finish(0)
        made.settle()
    assert Counter(made.starts[since:]) == {0: 10, 1: 10}


def test_a_waiting_job_starts_before_a_poll_of_its_own_queue_and_after_those_before_it() -> None:
    made = Process(StrictOrder(), 1, [1, 1], [1, 1], waiting=[0, 1])
    made.settle()
    made.finish(0)
    made.settle()
    made.finish(0)
    made.settle()
    assert (made.starts, made.waiting, made.backlog) == ([0, 1, 1], [0, 0], [0, 0])
