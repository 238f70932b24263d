"""run_handler(): its result, the recorded calls, and its options."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from pydantic import BaseModel

from tests.support.facts import until
from trellis_jobs import (
    ActiveJob,
    DeclarationError,
    Fail,
    JobCancelled,
    JobExpired,
    JobFailed,
    Jobs,
    KeyConcurrency,
    PayloadInvalid,
    Retry,
    Service,
    Snooze,
    job,
)
from trellis_jobs.model.notes import LogLevel
from trellis_jobs.testing import HandlerRun, RecordedCalls, run_handler


class Order(BaseModel):
    id: int
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)


class ShopJobs(Jobs, service="shop"):
    pack = job(Order, dict[str, int], max_deliver=3, timeout=0.2)
    count = job(int, int)
    count_in_a_thread = job(int, int)
    ship = job(Order, str, key=KeyConcurrency(["orders", "/id"]))
    unhandled = job(int)


class Shop:
    """A service whose handlers do what the test configures."""

    def __init__(self) -> None:
        self.service = Service(ShopJobs)
        self.jobs = self.service.jobs
        self.had: list[ActiveJob[Any]] = []
        self.told_at: list[int] = []
        self.raises: BaseException | None = None
        self.jobs.pack.handle(self.pack)
        self.jobs.count.handle(self.count)
        self.jobs.count_in_a_thread.handle(self.count_in_a_thread)
        self.jobs.ship.handle(self.ship)

    async def pack(self, active: ActiveJob[Order]) -> dict[str, int]:
        self.had.append(active)
        if self.raises is not None:
            raise self.raises
        if active.payload.id == 0:
            await asyncio.Event().wait()
        return {"tries": active.tries, "redelivered": active.redelivered}

    async def count(self, active: ActiveJob[int]) -> int:
        for number in range(active.payload):
            if active.cancelled:
                self.told_at.append(number)
            try:
                await active.progress(current=number, total=active.payload)
                await active.log(f"number {number}", "warning")
                await active.heartbeat()
            except asyncio.CancelledError:
                self.told_at.append(number)
                raise
        return active.payload

    def count_in_a_thread(self, active: ActiveJob[int]) -> int:
        for number in range(active.payload):
            if active.cancelled:
                active.log("stopped")
                self.told_at.append(number)
                return number
            active.progress(current=number)
        return active.payload

    async def ship(self, active: ActiveJob[Order]) -> str:
        return f"{active.key} {active.key_lease is not None}"


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_the_result_comes_back_as_from_wait(shop: Shop) -> None:
    assert await run_handler(shop.jobs.pack, Order(id=1)) == {"tries": 1, "redelivered": 0}


async def test_the_handler_gets_a_payload_that_went_through_json(shop: Shop) -> None:
    order = Order(id=1)
    await run_handler(shop.jobs.pack, order)
    assert shop.had[0].payload == order
    assert shop.had[0].payload is not order


async def test_a_wrong_payload_fails_where_and_as_create_does(shop: Shop) -> None:
    wrong: Any = {"id": "seven"}
    with pytest.raises(PayloadInvalid, match="queue 'pack': id: Input should be a valid integer"):
        await run_handler(shop.jobs.pack, wrong)
    assert not shop.had


@pytest.mark.parametrize(
    "raised", [ValueError("no"), Retry("later", after=9), Snooze("later", for_=9), Fail("never")]
)
async def test_what_the_handler_raises_is_raised(shop: Shop, raised: Exception) -> None:
    shop.raises = raised
    with pytest.raises(type(raised)) as caught:
        await run_handler(shop.jobs.pack, Order(id=1))
    assert caught.value is raised


@pytest.mark.parametrize(
    ("raised", "tries", "state"),
    [
        (ValueError("no"), 2, "retry"),
        (ValueError("no"), 3, "dead"),
        (Fail("never"), 1, "failed"),
    ],
)
async def test_the_job_of_a_run_shows_its_resulting_state(
    shop: Shop, raised: Exception, tries: int, state: str
) -> None:
    shop.raises = raised
    run = HandlerRun(shop.jobs.pack, Order(id=1), tries=tries)
    with pytest.raises(type(raised)):
        await run.run()
    assert run.job.state == state
    assert run.job.last_error is not None
    assert run.job.last_error.message == str(raised)


async def test_a_delay_that_the_handler_asks_for_is_kept(shop: Shop) -> None:
    shop.raises = Retry(after=90)
    run = HandlerRun(shop.jobs.pack, Order(id=1))
    with pytest.raises(Retry):
        await run.run()
    due, recorded = run.job.next_attempt_at, run.job.updated_at
    assert due is not None
    assert due - recorded == timedelta(seconds=90)


async def test_the_job_of_a_run_that_snoozed_is_snoozed_and_has_no_error(shop: Shop) -> None:
    shop.raises = Snooze("the mail server is busy", for_=90)
    run = HandlerRun(shop.jobs.pack, Order(id=1), tries=2, snoozes=4)
    with pytest.raises(Snooze):
        await run.run()
    assert (shop.had[0].tries, shop.had[0].snoozes, shop.had[0].redelivered) == (2, 4, 5)
    assert (run.job.state, run.job.tries, run.job.snoozes) == ("retry", 1, 5)
    assert [error.type for error in run.job.errors] == ["EarlierTry"]
    assert run.job.snooze_reason == "the mail server is busy"
    assert run.job.snoozed_until is not None
    assert run.job.snoozed_until - run.job.updated_at <= timedelta(seconds=90)


async def test_a_result_that_does_not_fit_fails_the_job() -> None:
    service, wrong = Service(ShopJobs), cast("int", "many")

    @service.jobs.count.handle
    async def miscount(_: ActiveJob[int]) -> int:
        return wrong

    with pytest.raises(JobFailed, match="result_invalid"):
        await run_handler(service.jobs.count, 1)


async def test_a_handler_that_takes_too_long_is_stopped(shop: Shop) -> None:
    run = HandlerRun(shop.jobs.pack, Order(id=0))
    with pytest.raises(TimeoutError, match=r"timed out after 200 ms"):
        await run.run()
    assert run.job.state == "retry"


async def test_tries_and_deliveries_are_as_arranged(shop: Shop) -> None:
    assert await run_handler(shop.jobs.pack, Order(id=1), tries=2) == {
        "tries": 2,
        "redelivered": 1,
    }
    assert await run_handler(shop.jobs.pack, Order(id=1), redelivered=5) == {
        "tries": 1,
        "redelivered": 5,
    }
    await run_handler(shop.jobs.pack, Order(id=1), tries=7, max_tries=7)
    assert shop.had[-1].tries == shop.had[-1].max_tries == 7


@pytest.mark.parametrize("tries", [0, 4])
async def test_a_try_that_cannot_be_is_refused(shop: Shop, tries: int) -> None:
    with pytest.raises(ValueError, match=f"tries must be between 1 and 3, not {tries}"):
        await run_handler(shop.jobs.pack, Order(id=1), tries=tries)


async def test_a_deadline_is_shown_to_the_handler(shop: Shop) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    await run_handler(shop.jobs.pack, Order(id=1), deadline=moment)
    shown = shop.had[0].deadline
    assert shown is not None
    assert abs(shown - moment) < timedelta(milliseconds=1)


async def test_a_deadline_that_has_passed_lets_no_handler_run(shop: Shop) -> None:
    with pytest.raises(JobExpired):
        await run_handler(
            shop.jobs.pack, Order(id=1), deadline=datetime.now(UTC) - timedelta(seconds=1)
        )
    assert not shop.had


async def test_a_keyed_job_holds_its_key(shop: Shop) -> None:
    assert await run_handler(shop.jobs.ship, Order(id=7)) == "orders:7 True"


async def test_every_word_is_written_down(shop: Shop) -> None:
    run = HandlerRun(shop.jobs.count, 3)
    assert await run.run() == 3
    assert [(p.current, p.total) for p in run.recorded.progress] == [(0, 3), (1, 3), (2, 3)]
    assert run.recorded.logs == [(LogLevel.WARN, f"number {n}") for n in range(3)]
    assert run.recorded.heartbeats == 3
    assert [line.message for line in run.job.logs] == ["number 0", "number 1", "number 2"]


async def test_a_job_is_cancelled_at_the_very_word(shop: Shop) -> None:
    run = HandlerRun(shop.jobs.count, 9, cancel_when=lambda recorded: len(recorded.logs) == 2)
    with pytest.raises(JobCancelled):
        await run.run()
    assert shop.told_at == [1]
    assert len(run.recorded.progress) == len(run.recorded.logs) == 2
    assert run.job.state == "cancelled"


async def test_a_handler_in_a_thread_sees_its_cancellation_at_the_very_word(shop: Shop) -> None:
    calls: list[int] = []

    def at_the_fourth(recorded: RecordedCalls) -> bool:
        calls.append(len(recorded.progress))
        return calls[-1] == 4

    with pytest.raises(JobCancelled):
        await run_handler(shop.jobs.count_in_a_thread, 9, cancel_when=at_the_fourth)
    # A thread cannot be stopped: the job is over before its handler has looked.
    assert await until(lambda: shop.told_at) == [4]
    assert calls == [1, 2, 3, 4]


async def test_a_job_is_cancelled_from_the_test() -> None:
    service, entered = Service(ShopJobs), asyncio.Event()

    @service.jobs.unhandled.handle
    async def hang(active: ActiveJob[int]) -> None:
        entered.set()
        await asyncio.Event().wait()

    run = HandlerRun(service.jobs.unhandled, 1)
    running = asyncio.create_task(run.run())
    await entered.wait()
    await run.cancel("enough")
    with pytest.raises(JobCancelled, match="enough"):
        await running


async def test_a_job_that_does_not_run_cannot_be_cancelled(shop: Shop) -> None:
    with pytest.raises(RuntimeError, match="before run"):
        await HandlerRun(shop.jobs.count, 1).cancel()


async def test_a_queue_without_a_handler_has_nothing_to_run(shop: Shop) -> None:
    with pytest.raises(DeclarationError, match="queue 'unhandled' has no handler"):
        await run_handler(shop.jobs.unhandled, 1)


async def test_a_test_that_gives_up_stops_the_handler() -> None:
    service, stopped = Service(ShopJobs), asyncio.Event()

    @service.jobs.unhandled.handle
    async def hang(active: ActiveJob[int]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_handler(service.jobs.unhandled, 1)
    assert stopped.is_set()


async def test_nothing_of_a_run_is_left_in_the_test() -> None:
    service, tone = Service(ShopJobs), ContextVar("tone", default="low")

    @service.jobs.unhandled.handle
    async def sing(active: ActiveJob[int]) -> None:
        tone.set("high")
        for _ in range(2):
            active.log("la")
            await asyncio.sleep(0)

    await run_handler(service.jobs.unhandled, 1)
    assert tone.get() == "low"
    assert asyncio.all_tasks() == {asyncio.current_task()}
