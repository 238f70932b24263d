"""Middleware wraps every attempt, in order, and decides its outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from tests.support.example_service import example_jobs
from tests.support.lab import until_state
from trellis_jobs import (
    ActiveJob,
    CallNext,
    DeclarationError,
    Fail,
    JobCancelled,
    JobDead,
    JobFailed,
    JobState,
    NoCurrentJob,
    Retry,
    Service,
    current_job,
)
from trellis_jobs.testing import ConnectService, HandlerRun, inline, run_handler

MILL: Final = example_jobs(
    "mill",
    str,
    str,
    grind={"max_deliver": 2, "backoff": [0.05], "timeout": 0.5},
    press={"max_deliver": 2, "backoff": [0.05]},
    slow={},
)


class Mill:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.service = Service(MILL)
        self.jobs = self.service.jobs
        self.jobs.grind.handle(self.grind)
        self.jobs.press.handle(self.press)
        self.jobs.slow.handle(self.grind)

    async def grind(self, active: ActiveJob[str]) -> str:
        self.seen.append(f"grind {active.payload}")
        if active.payload == "bad":
            raise KeyError("stones")
        if active.payload == "hang":
            await asyncio.Event().wait()
        return active.payload.upper()

    def press(self, active: ActiveJob[str]) -> str:
        assert current_job() is active
        self.seen.append(f"press in {threading.current_thread().name}")
        return active.payload.upper()

    def note(self, name: str) -> None:
        @self.service.around
        async def noting(active: ActiveJob[Any], call_next: CallNext) -> Any:
            self.seen.append(f"{name} before try {active.tries}")
            try:
                result = await call_next(active)
            except BaseException as raised:
                self.seen.append(f"{name} saw {type(raised).__name__}")
                raise
            self.seen.append(f"{name} saw {result}")
            return result


async def test_middleware_wraps_async_and_sync_handlers_in_order(
    connected_service: ConnectService,
) -> None:
    mill = Mill()
    mill.note("outer")
    mill.note("inner")
    async with connected_service(mill.service, workers=True):
        assert await (await mill.jobs.grind.create("a")).wait(10) == "A"
        first, mill.seen = mill.seen, []
        assert await (await mill.jobs.press.create("b")).wait(10) == "B"
    assert first == [
        "outer before try 1",
        "inner before try 1",
        "grind a",
        "inner saw A",
        "outer saw A",
    ]
    assert mill.seen[2] == "press in trellis-jobs-handler"


async def test_every_try_is_wrapped_and_its_exception_seen(
    connected_service: ConnectService,
) -> None:
    mill = Mill()
    mill.note("log")
    async with connected_service(mill.service, workers=True):
        with pytest.raises(JobDead, match="stones"):
            await (await mill.jobs.grind.create("bad")).wait(10)
    tries = [["log before try 1", "grind bad", "log saw KeyError"]]
    tries.append(["log before try 2", "grind bad", "log saw KeyError"])
    assert mill.seen == [*tries[0], *tries[1]]


async def replace_result(active: ActiveJob[Any], call_next: CallNext) -> Any:
    return f"<{await call_next(active)}>"


async def give_up(_active: ActiveJob[Any], _call_next: CallNext) -> Any:
    raise Fail("not today")


async def try_again_once(active: ActiveJob[Any], call_next: CallNext) -> Any:
    if active.tries == 1:
        raise Retry("later", after=0)
    return await call_next(active)


async def wrong_result(_active: ActiveJob[Any], _call_next: CallNext) -> Any:
    return 7


async def test_what_middleware_returns_or_raises_is_the_outcome(
    connected_service: ConnectService,
) -> None:
    async def outcome(middleware: Callable[[ActiveJob[Any], CallNext], Any]) -> Any:
        mill = Mill()
        mill.service.around(middleware)
        async with connected_service(mill.service, workers=True):
            ref = await mill.jobs.grind.create("a")
            try:
                return await ref.wait(10), (await ref.get()).tries
            except JobFailed as failed:
                return str(failed.why)

    assert await outcome(replace_result) == ("<A>", 1)
    assert await outcome(try_again_once) == ("A", 2)
    assert "not today" in await outcome(give_up)
    assert "the result" in await outcome(wrong_result), "its result is checked like a handler's"


async def test_middleware_runs_inside_timeout_and_cancellation(
    connected_service: ConnectService,
) -> None:
    mill = Mill()
    mill.note("log")
    async with connected_service(mill.service, workers=True):
        late = await mill.jobs.grind.create("hang")
        with pytest.raises(JobDead, match="timed out after"):
            await late.wait(10)
        assert mill.seen[-1] == "log saw CancelledError"
        mill.seen.clear()
        ref = await mill.jobs.slow.create("hang")
        await until_state(ref, JobState.ACTIVE)
        await ref.cancel()
        with pytest.raises(JobCancelled):
            await ref.wait(10)
    assert mill.seen[-1] == "log saw CancelledError"


async def test_run_handler_and_inline_run_middleware_too() -> None:
    mill = Mill()
    mill.note("log")
    assert await run_handler(mill.jobs.press, "a") == "A"
    async with inline(mill.service):
        assert await (await mill.jobs.grind.create("b")).wait() == "B"
    assert mill.seen[0] == "log before try 1"
    assert mill.seen[-1] == "log saw B"


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, active: ActiveJob[Any], call_next: CallNext) -> Any:
        self.calls += 1
        return await call_next(active)


async def tagged(tag: str, active: ActiveJob[Any], call_next: CallNext) -> Any:
    return f"{tag} {await call_next(active)}"


async def test_middleware_may_be_an_object_or_a_partial() -> None:
    mill, counting = Mill(), Counting()
    mill.service.around(counting)
    mill.service.around(partial(tagged, "fine"))
    assert await run_handler(mill.jobs.grind, "a") == "fine A"
    assert counting.calls == 1


async def not_two_arguments(_: ActiveJob[Any]) -> None:
    pass


def not_async(_active: ActiveJob[Any], _call_next: CallNext) -> None:
    pass


@pytest.mark.parametrize(
    ("middleware", "complaint"),
    [(not_two_arguments, "two arguments"), (not_async, "must be `async def not_async")],
)
def test_middleware_that_cannot_work_is_refused_where_it_is_declared(
    middleware: Any, complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        Mill().service.around(middleware)


def test_a_service_without_middleware_calls_its_handlers_directly() -> None:
    mill = Mill()
    handler = mill.jobs.runtime.handlers.get("grind")
    assert handler is not None
    assert handler.call == mill.grind


async def test_the_current_job_is_known_everywhere_below_a_handler() -> None:
    service = Service(MILL)
    found: list[str] = []

    def deep_down() -> None:
        current_job().log("deep down")
        found.append(current_job().id)

    async def in_a_task() -> None:
        deep_down()

    @service.jobs.grind.handle
    async def grind(active: ActiveJob[str]) -> str:
        deep_down()
        await asyncio.create_task(in_a_task())
        await asyncio.to_thread(deep_down)
        assert set(found) == {active.id}
        return "done"

    run = HandlerRun(service.jobs.grind, "a")
    assert await run.run() == "done"
    assert len(run.recorded.logs) == 3, "what is said through current_job() is written down as well"


def test_outside_a_handler_there_is_no_current_job() -> None:
    with pytest.raises(NoCurrentJob, match="outside a handler"):
        current_job()
