"""Handlers with unexpected behaviour: the job still ends as documented, with a reason."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import pytest

from tests.support.example_service import ExampleJobs, example_jobs
from tests.support.facts import until
from tests.support.lab import probe, until_state
from trellis_jobs import (
    ActiveJob,
    DeclarationError,
    Fail,
    JobDead,
    JobFailed,
    NotConnected,
    Retry,
    Service,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState

ODD: Final = example_jobs(
    "odd",
    str,
    str,
    work={"max_deliver": 2, "backoff": [0.05]},
    hasty={"max_deliver": 2, "backoff": [0.05], "timeout": 0.2},
    limited={"delivery_limit": 2, "max_deliver": 5, "backoff": [0.05]},
)


@asynccontextmanager
async def handled_by(
    url: str, handler: Callable[[ActiveJob[str]], Any], queue: str = "work"
) -> AsyncIterator[Service[ExampleJobs[str, str]]]:
    service = Service(ODD, grace=0.1)
    getattr(service.jobs, queue).handle(handler)
    async with service.connect(url):
        yield service


class Strange(BaseException):
    """Not an Exception."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


RAISED = [
    pytest.param(Strange("from the deep"), "Strange: from the deep", id="a BaseException"),
    pytest.param(BaseExceptionGroup("both", [Strange("x")]), "BaseExceptionGroup", id="a group"),
    pytest.param(Mute(), "Mute: a Mute whose __str__ fails", id="without words"),
    pytest.param(SystemExit(3), "SystemExit: 3", id="sys.exit"),
    pytest.param(KeyboardInterrupt("no"), "KeyboardInterrupt: no", id="KeyboardInterrupt"),
]


@pytest.mark.parametrize(("raised", "expected"), RAISED)
async def test_whatever_a_handler_raises_is_tried_again_and_recorded(
    server: EmbeddedServer, raised: BaseException, expected: str
) -> None:
    async def fail(active: ActiveJob[str]) -> str:
        raise raised

    async with handled_by(server.url, fail) as service:
        ref = await service.jobs.work.create("x")
        with pytest.raises(JobDead, match=expected):
            await ref.wait(timeout=10)
        assert len((await ref.get()).errors) == 2


async def test_a_keyboard_interrupt_in_a_thread_is_an_error_of_the_job_only(
    server: EmbeddedServer,
) -> None:
    def interrupt(active: ActiveJob[str]) -> str:
        raise KeyboardInterrupt

    async with handled_by(server.url, interrupt) as service:
        ref = await service.jobs.work.create("x")
        with pytest.raises(JobDead, match="KeyboardInterrupt"):
            await ref.wait(timeout=10)


async def test_a_timeout_of_a_library_that_leaves_the_task_cancelled_is_an_error_of_the_job(
    server: EmbeddedServer,
) -> None:
    """HTTP clients from before Python 3.11 end a request by cancelling the task it runs in, and
    turn that into TimeoutError without taking the cancellation back. Such a job was not settled:
    it started again only when its lease was over, and its error was lost."""

    async def request(active: ActiveJob[str]) -> str:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise TimeoutError("the request took too long") from None
        return "never"

    async with handled_by(server.url, request) as service:
        ref = await service.jobs.work.create("x")
        with pytest.raises(JobDead, match="TimeoutError: the request took too long"):
            await ref.wait(timeout=10)


async def test_a_handler_that_cancels_its_own_task_fails_its_try_at_once(
    server: EmbeddedServer,
) -> None:
    """Such a try was neither settled nor logged before its lease was over."""

    async def cancel_itself(active: ActiveJob[str]) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()
        return "never"

    async with handled_by(server.url, cancel_itself) as service:
        ref = await service.jobs.work.create("x")
        with pytest.raises(JobDead, match="CancelledError: the handler, or code that it called"):
            await ref.wait(timeout=10)
        assert [error.type for error in (await ref.get()).errors] == ["CancelledError"] * 2


@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_traceback_begins_with_the_handler(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture, is_sync: bool
) -> None:
    async def break_async(active: ActiveJob[str]) -> str:
        raise AssertionError

    def break_sync(active: ActiveJob[str]) -> str:
        raise AssertionError

    async with handled_by(server.url, break_sync if is_sync else break_async) as service:
        ref = await service.jobs.work.create("x")
        with pytest.raises(JobDead, match="AssertionError: no message"):
            await ref.wait(timeout=10)
        for error in (await ref.get()).errors:
            assert error.traceback is not None
            first_frame = error.traceback.splitlines()[1]
            assert f"in break_{'sync' if is_sync else 'async'}" in first_frame
        await until(lambda: "died after" in caplog.text, "the death is logged")
        assert "invoke.py" not in caplog.text


@pytest.mark.parametrize("after", ["0.05", 0.05, timedelta(seconds=0.05), -1])
async def test_retry_takes_a_delay_in_whatever_form_it_comes(
    server: EmbeddedServer, after: Any
) -> None:
    async def once_more(active: ActiveJob[str]) -> str:
        if active.tries == 1:
            raise Retry("later", after=after)
        return "done"

    async with handled_by(server.url, once_more) as service:
        assert await (await service.jobs.work.create("x")).wait(timeout=10) == "done"


@pytest.mark.parametrize("after", ["soon", float("nan"), [5]])
def test_an_invalid_delay_is_refused_where_it_is_given(after: Any) -> None:
    with pytest.raises(TypeError, match="seconds or a timedelta"):
        Retry(after=after)


@pytest.mark.parametrize("raised", [ValueError("clean-up failed"), Retry("no"), Fail("no")])
async def test_a_handler_that_fails_while_the_worker_stops_gives_its_try_back(
    server: EmbeddedServer, raised: Exception
) -> None:
    async def clean_up_badly(active: ActiveJob[str]) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise raised from None
        return "never"

    async with handled_by(server.url, clean_up_badly) as service:
        ref = await service.jobs.work.create("x")
        await until_state(ref, JobState.ACTIVE)
        await service.stop(grace=0)
        handed_back = await ref.get()
        assert (handed_back.state, handed_back.tries) == (JobState.RETRY, 0)


async def test_a_thread_that_ran_out_of_time_can_see_it(server: EmbeddedServer) -> None:
    seen = threading.Event()

    def slow(active: ActiveJob[str]) -> str:
        while active.tries == 1 and not active.cancelled:
            time.sleep(0.01)
        seen.set()
        return "done"

    async with handled_by(server.url, slow, "hasty") as service:
        assert await (await service.jobs.hasty.create("x")).wait(timeout=10) == "done"
        await until(seen.is_set, "the first try's thread saw that its time was over")


async def test_a_verdict_given_while_time_runs_out_counts(server: EmbeddedServer) -> None:
    async def give_up(active: ActiveJob[str]) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Fail("it can never work") from None
        return "never"

    async with handled_by(server.url, give_up, "hasty") as service:
        ref = await service.jobs.hasty.create("x")
        with pytest.raises(JobFailed, match="it can never work"):
            await ref.wait(timeout=10)


async def test_logs_too_large_to_store_do_not_cost_the_outcome(server: EmbeddedServer) -> None:
    async def chatter(active: ActiveJob[str]) -> str:
        for _ in range(300):
            active.log("漢" * 5000)
        if active.payload == "fail" and active.tries == 1:
            raise ValueError("once")
        return "done"

    async with handled_by(server.url, chatter) as service:
        for payload in ("succeed", "fail"):
            assert await (await service.jobs.work.create(payload)).wait(timeout=10) == "done"


async def test_notes_of_odd_types_are_taken_as_text_and_whole_numbers(
    server: EmbeddedServer,
) -> None:
    odd: Any = 5

    async def note(active: ActiveJob[str]) -> str:
        active.progress(current=odd / 2, total=odd, step=odd, message=odd)
        active.log(odd, level="warning")
        with pytest.raises(ValueError, match="info, warn, error"):
            active.log("x", level="loud")
        return "done"

    async with handled_by(server.url, note) as service:
        ref = await service.jobs.work.create("x")
        assert await ref.wait(timeout=10) == "done"
        done = await ref.get()
        assert done.progress is not None
        assert (done.progress.current, done.progress.total, done.progress.step) == (2, 5, "5")
        assert [(line.level, line.message) for line in done.logs] == [("warn", "5")]


async def test_notes_go_out_at_most_ten_times_a_second(server: EmbeddedServer) -> None:
    async def tick(active: ActiveJob[str]) -> str:
        for n in range(60):
            active.progress(current=n)
            await asyncio.sleep(0.01)
        return "done"

    async with handled_by(server.url, tick) as service:
        ref = await service.jobs.work.create("x")
        await ref.wait(timeout=10)
        events = await ref.events()
        notes = [event.at for event in events if event.kind == "progress"]
        gaps = [later - earlier for earlier, later in itertools.pairwise(notes)]
        assert len(notes) > 2
        assert all(gap >= timedelta(seconds=0.09) for gap in gaps)


async def test_a_job_ends_with_the_last_delivery_that_its_queue_allows(
    server: EmbeddedServer,
) -> None:
    async def fail(active: ActiveJob[str]) -> str:
        raise ValueError("every time")

    async with handled_by(server.url, fail, "limited") as service, probe(server.url) as raw:
        ref = await service.jobs.limited.create("x")
        with pytest.raises(JobDead, match="every time"):
            await ref.wait(timeout=10)
        assert (await ref.get()).tries == 2
        await raw.until_empty()


async def test_a_service_connects_once_at_a_time(server: EmbeddedServer) -> None:
    service = Service(ODD)

    async def connect() -> str:
        try:
            async with service.connect(server.url, workers=False):
                return (await service.jobs.work.create("x")).id
        except DeclarationError as error:
            return str(error)

    first, second = await asyncio.gather(connect(), connect())
    assert "already connected" in second
    assert "already connected" not in first
    assert "already connected" not in await connect()


async def test_a_service_that_still_starts_is_not_connected_yet(server: EmbeddedServer) -> None:
    service = Service(ODD)
    connecting = service.connect(server.url)
    starting = asyncio.ensure_future(connecting.__aenter__())
    await asyncio.sleep(0)
    with pytest.raises(NotConnected):
        await service.stop()
    await starting
    await connecting.__aexit__(None, None, None)
