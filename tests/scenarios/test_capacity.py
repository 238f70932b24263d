"""A slot is free when its handler returns, but a stop waits until the outcome is written."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from tests.support.facts import until
from trellis_jobs.worker.capacity import Capacity, CapacitySlot
from trellis_jobs.worker.settle_throttle import SettleThrottle


async def test_a_worker_is_idle_when_all_outcomes_are_written() -> None:
    freed: list[None] = []
    capacity = Capacity(2, lambda: freed.append(None))
    assert capacity.try_acquire()
    first = CapacitySlot(capacity)
    first.release()
    assert (capacity.free, len(freed), capacity.is_idle) == (2, 1, False)
    assert capacity.try_acquire()
    second = CapacitySlot(capacity)
    second.done()
    assert not capacity.is_idle
    first.done()
    await capacity.until_idle()
    assert (capacity.free, capacity.in_use) == (2, 0)


async def test_the_only_slot_is_kept_until_the_outcome_is_written() -> None:
    capacity = Capacity(1, lambda: None)
    assert capacity.try_acquire()
    only = CapacitySlot(capacity)
    only.release()
    assert capacity.free == 0
    only.done()
    assert capacity.is_idle


async def test_a_worker_is_not_idle_while_a_slot_is_passed_on() -> None:
    capacity = Capacity(1, lambda: None)
    assert capacity.try_acquire()
    idle, waiter = map(asyncio.ensure_future, (capacity.until_idle(), capacity.acquire()))
    await until(lambda: capacity.waiting == 1, "a job waits for a slot")
    capacity.release_and_finish()
    await waiter
    assert not idle.done()
    capacity.release_and_finish()
    await idle


async def test_a_free_slot_goes_to_a_waiting_job() -> None:
    capacity = Capacity(2, lambda: None)
    assert capacity.try_acquire()
    assert capacity.try_acquire()
    holder, waiter = CapacitySlot(capacity), asyncio.ensure_future(capacity.acquire())
    await until(lambda: capacity.waiting == 1, "a job waits for a slot")
    holder.release()
    await waiter
    assert capacity.in_use == 2
    holder.done()
    assert not capacity.is_idle


async def test_at_most_twice_as_many_jobs_as_slots_are_in_progress() -> None:
    capacity = Capacity(2, lambda: None)
    held = list[CapacitySlot]()
    while capacity.try_acquire():
        held.append(CapacitySlot(capacity))
        held[-1].release()
    assert len(held) == 2 * capacity.limit
    for slot in held:
        slot.done()
    assert capacity.is_idle
    assert capacity.free == capacity.limit


async def test_of_handlers_that_end_together_a_few_settle_in_each_loop_iteration() -> None:
    throttle, passed = SettleThrottle(), list[int | None]()

    async def settle(number: int) -> None:
        if not throttle.try_pass():
            await throttle.wait()
        passed.append(number)

    def mark_iteration() -> None:
        passed.append(None)
        if sum(each is not None for each in passed) < many:
            asyncio.get_running_loop().call_soon(mark_iteration)

    many = 30
    settling = [asyncio.ensure_future(settle(number)) for number in range(many)]
    asyncio.get_running_loop().call_soon(mark_iteration)
    await asyncio.gather(*settling)
    assert [each for each in passed if each is not None] == list(range(many))
    iterations = [n for n, each in enumerate(passed) if each is None]
    assert iterations[0] <= 8
    assert max(later - earlier for earlier, later in pairwise(iterations)) <= 9


async def test_a_cancelled_wait_for_settling_delays_no_other() -> None:
    throttle = SettleThrottle()
    while throttle.try_pass():
        pass
    cancelled, waiting = throttle.wait(), throttle.wait()
    cancelled.cancel()
    await waiting
