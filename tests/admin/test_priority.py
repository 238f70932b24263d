"""The projection yields the CPU to running work, but not when a request waits for it."""

from __future__ import annotations

import asyncio
import sys

import pytest

from jobs_admin.priority import MAX_SECONDS_BEHIND, CpuTime, Throttle, measure_cpu

CONTENDED = CpuTime(ran=0.1, waited=0.1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_batch_that_waited_for_a_cpu_is_followed_by_a_rest() -> None:
    assert Throttle(10).rest_after(CONTENDED, pending=9) == pytest.approx(1.5)


def test_a_batch_that_had_a_cpu_to_itself_is_followed_by_the_next_at_once() -> None:
    assert Throttle(10).rest_after(CpuTime(ran=0.1, waited=0.01), pending=9) == 0


def test_an_admin_runtime_of_ordinary_priority_never_rests() -> None:
    assert Throttle(0).rest_after(CONTENDED, pending=9) == 0


def test_a_projection_that_was_behind_for_a_minute_rests_no_more_until_it_has_caught_up() -> None:
    clock = Clock()
    throttle = Throttle(10, clock)
    assert throttle.rest_after(CONTENDED, pending=9) > 0
    clock.now += MAX_SECONDS_BEHIND + 1
    assert throttle.rest_after(CONTENDED, pending=9) == 0
    assert throttle.rest_after(CONTENDED, pending=0) > 0
    assert throttle.rest_after(CONTENDED, pending=9) > 0


async def test_a_request_that_waits_for_the_projection_ends_a_rest() -> None:
    throttle = Throttle(10)
    resting = asyncio.create_task(throttle.rest(CpuTime(ran=3600, waited=3600), pending=9))
    await asyncio.sleep(0)
    assert not resting.done()
    with throttle:
        await resting
        assert throttle.rest_after(CONTENDED, pending=9) == 0
    assert throttle.rest_after(CONTENDED, pending=9) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts how long a thread waited")
def test_the_cpu_time_of_work_is_measured() -> None:
    done, used = measure_cpu(lambda: sum(range(3_000_000)))
    assert done == 4_499_998_500_000
    assert used.ran > 0.001
