"""Seats are for handlers: who writes an outcome keeps nobody from starting, and is waited for."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from tests.support.facts import until
from trellis_jobs.worker.capacity import Capacity, Seat
from trellis_jobs.worker.settle_throttle import SettleThrottle


async def test_the_room_is_empty_once_those_who_rose_are_gone() -> None:
    vacated: list[None] = []
    seats = Capacity(2, lambda: vacated.append(None))
    assert seats.take_now()
    first = Seat(seats)
    first.rise()
    assert (seats.free, len(vacated), seats.is_empty) == (2, 1, False)
    assert seats.take_now()
    second = Seat(seats)
    second.leave()
    assert not seats.is_empty
    first.leave()
    await seats.until_empty()
    assert (seats.free, seats.taken) == (2, 0)


async def test_who_has_the_only_seat_keeps_it_until_the_end() -> None:
    seats = Capacity(1, lambda: None)
    assert seats.take_now()
    only = Seat(seats)
    only.rise()
    assert seats.free == 0
    only.leave()
    assert seats.is_empty


async def test_the_room_is_not_empty_while_a_seat_changes_hands() -> None:
    seats = Capacity(1, lambda: None)
    assert seats.take_now()
    emptied, waiter = (asyncio.ensure_future(each) for each in (seats.until_empty(), seats.take()))
    await until(lambda: seats.waiting == 1, "somebody waits")
    seats.leave()
    await waiter
    assert not emptied.done()
    seats.leave()
    await emptied


async def test_a_seat_goes_to_who_waits_for_it() -> None:
    seats = Capacity(2, lambda: None)
    assert seats.take_now()
    assert seats.take_now()
    holder, waiter = Seat(seats), asyncio.ensure_future(seats.take())
    await until(lambda: seats.waiting == 1, "somebody waits")
    holder.rise()
    await waiter
    assert seats.taken == 2
    holder.leave()
    assert not seats.is_empty


async def test_nobody_rises_while_as_many_as_there_are_seats_stand_about() -> None:
    seats = Capacity(2, lambda: None)
    held = list[Seat]()
    while seats.take_now():
        held.append(Seat(seats))
        held[-1].rise()
    assert len(held) == 2 * seats.count
    for seat in held:
        seat.leave()
    assert seats.is_empty
    assert seats.free == seats.count


async def test_of_many_that_come_together_a_few_go_on_before_the_loop_looks_elsewhere() -> None:
    turns, went_on = SettleThrottle(), list[int | None]()

    async def come(number: int) -> None:
        if not turns.pass_now():
            await turns.wait()
        went_on.append(number)

    def look_elsewhere() -> None:
        went_on.append(None)
        if sum(each is not None for each in went_on) < many:
            asyncio.get_running_loop().call_soon(look_elsewhere)

    many = 30
    coming = [asyncio.ensure_future(come(number)) for number in range(many)]
    asyncio.get_running_loop().call_soon(look_elsewhere)
    await asyncio.gather(*coming)
    assert [each for each in went_on if each is not None] == list(range(many))
    looks = [n for n, each in enumerate(went_on) if each is None]
    assert looks[0] <= 8
    assert max(later - earlier for earlier, later in pairwise(looks)) <= 9


async def test_who_gives_up_waiting_for_a_turn_holds_up_nobody() -> None:
    turns = SettleThrottle()
    while turns.pass_now():
        pass
    given_up, waiting = turns.wait(), turns.wait()
    given_up.cancel()
    await waiting
