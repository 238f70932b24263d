"""Wrong arguments and declarations raise errors with the correction."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from trellis_jobs import (
    ActiveJob,
    DeadlineInvalid,
    DeclarationError,
    JobExpired,
    JobRef,
    Jobs,
    KeyConcurrency,
    KeyUnresolvable,
    PayloadInvalid,
    Service,
    Unreachable,
    Workers,
    WrongEventLoop,
    job,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InvalidToken
from trellis_jobs.testing import inline


class Task(BaseModel):
    text: str
    group: str | None = None


class ShopJobs(Jobs, service="shop"):
    work = job(Task)
    keyed = job(Task, key=KeyConcurrency(["/group"]))
    other = job(Task)


@pytest.fixture
async def shop() -> AsyncIterator[ShopJobs]:
    async with inline(Service(ShopJobs)) as service:
        yield service.jobs


@pytest.mark.parametrize("wrong", [7, b"abc", ["a"], 7.5, "", "a.b", "a b", "x" * 129])
async def test_a_job_id_that_is_none(shop: ShopJobs, wrong: Any) -> None:
    """Reproduction: `job_id=7` raised AttributeError."""
    with pytest.raises(InvalidToken, match="job id"):
        await shop.work.create(Task(text="x"), job_id=wrong)
    with pytest.raises(InvalidToken, match="job id"):
        shop.work.ref(wrong)


def test_a_service_name_that_is_none() -> None:
    with pytest.raises(InvalidToken, match="service 7 is not a valid subject token: pass text"):

        class WrongJobs(Jobs, service=7):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("soon", "pass seconds, a timedelta, or a datetime with a time zone"),
        (date(2030, 1, 1), "pass seconds"),
        (True, "pass seconds"),
        (-5, "more than 0 seconds"),
        (0, "more than 0 seconds"),
        (-0.1, "more than 0 seconds"),
        (timedelta(seconds=-1), "more than 0 seconds"),
        (datetime(2030, 1, 1), "time zone"),  # noqa: DTZ001 - that is the mistake
        (float("nan"), "deadline nan"),
        (float("inf"), "deadline inf"),
        (1e20, "deadline 1e"),
    ],
)
async def test_a_deadline_that_is_none(shop: ShopJobs, wrong: Any, why: str) -> None:
    """Reproduction: `deadline="soon"` raised AttributeError, and `deadline=-5` was accepted."""
    for attempt in (
        shop.work.create(Task(text="x"), deadline=wrong),
        shop.work.submit(Task(text="x"), deadline=wrong),
        shop.work.create_many([Task(text="x")], deadline=wrong),
    ):
        with pytest.raises(DeadlineInvalid, match=why):
            await attempt


async def test_a_moment_that_has_passed_makes_a_job_that_expires() -> None:
    service, ran = Service(ShopJobs), list[str]()

    @service.jobs.work.handle
    async def work(job: ActiveJob[Task]) -> None:
        ran.append(job.id)

    async with inline(service):
        late = datetime.now(UTC) - timedelta(seconds=1)
        ref = await service.jobs.work.create(Task(text="x"), deadline=late)
        with pytest.raises(JobExpired):
            await ref.wait(timeout=5)
    assert ran == []


@pytest.mark.parametrize("option", ["deadline", "timeout", "ack_wait"])
@pytest.mark.parametrize("wrong", [-5, 0, timedelta(seconds=-1), True, float("nan"), "soon"])
def test_a_duration_that_is_none_is_refused_at_declaration(option: Any, wrong: Any) -> None:
    with pytest.raises(DeclarationError, match=f"WrongJobs.work: .*{option}"):

        class WrongJobs(Jobs, service="wrong"):
            work = job(Task, **{option: wrong})


def test_a_negative_delay_or_grace_is_refused() -> None:
    with pytest.raises(DeclarationError, match="backoff"):

        class WrongJobs(Jobs, service="wrong"):
            work = job(Task, backoff=[1, -1])

    with pytest.raises(DeclarationError, match="grace"):
        Service(ShopJobs, grace=-1)


async def test_which_of_many_payloads_is_wrong_and_where(shop: ShopJobs) -> None:
    wrong: Any = {"text": 7}
    payloads = [Task(text="a"), Task(text="b"), wrong, Task(text="c")]
    with pytest.raises(PayloadInvalid, match=r"payload 2 of create_many .*text: ") as refused:
        await shop.work.create_many(iter(payloads))
    assert refused.value.index == 2
    with pytest.raises(PayloadInvalid, match=r"^the payload is not valid") as alone:
        await shop.work.create(wrong)
    assert alone.value.index is None
    grouped = [Task(text="a", group="g"), Task(text="b")]
    with pytest.raises(
        KeyUnresolvable, match=r"'/group' .* in payload 1 of create_many"
    ) as keyless:
        await shop.keyed.create_many(grouped)
    assert keyless.value.index == 1


class AHandler:
    async def __call__(self, job: ActiveJob[Task]) -> None: ...


class AGenerator:
    async def __call__(self, job: ActiveJob[Task]) -> AsyncIterator[int]:
        yield 1


async def an_async_generator(job: ActiveJob[Task]) -> AsyncIterator[int]:
    yield 1


def a_generator(job: ActiveJob[Task]) -> Iterator[int]:
    yield 1


async def without_arguments() -> None: ...


async def with_two(job: ActiveJob[Task], other: int) -> None: ...


async def by_keyword(*, job: ActiveJob[Task]) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (an_async_generator, "is a generator"),
        (a_generator, "is a generator"),
        (AGenerator(), "is a generator"),
        (functools.partial(an_async_generator), "is a generator"),
        (without_arguments, r"has the parameters \(\)"),
        (with_two, "is called with one argument, the job"),
        (by_keyword, "is called with one argument, the job"),
        (AHandler, "is a class"),
        (7, "cannot be called"),
        (None, "cannot be called"),
    ],
)
def test_what_cannot_be_a_handler_is_refused_with_what_to_write(wrong: Any, why: str) -> None:
    service = Service(ShopJobs)
    with pytest.raises(DeclarationError, match=why) as refused:
        service.jobs.work.handle(wrong)
    assert "(job: ActiveJob[Task])`" in str(refused.value)


def injecting(handler: Callable[..., Any]) -> Callable[[ActiveJob[Task]], Any]:
    @functools.wraps(handler)
    def inner(job: ActiveJob[Task]) -> Any:
        return handler(job, 7)

    return inner


async def with_default(job: ActiveJob[Task], other: int = 1) -> None: ...


def plain(job: ActiveJob[Task]) -> None: ...


@pytest.mark.parametrize(
    "right",
    [
        AHandler(),
        with_default,
        plain,
        functools.partial(with_two, other=1),
        injecting(with_two),
        lambda *args: None,
    ],
)
def test_what_can_be_called_with_a_job_is_a_handler(right: Any) -> None:
    Service(ShopJobs).jobs.work.handle(right)


def handled() -> Service[ShopJobs]:
    service = Service(ShopJobs)
    service.jobs.work.handle(plain)
    return service


async def test_a_queue_without_a_handler_is_named_when_the_service_connects(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Reproduction: a service that declared three queues and handled one started in silence."""

    async def warned(workers: bool | Workers) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            async with handled().connect(server.url, workers=workers):
                pass
        return [r.getMessage() for r in caplog.records if "no handler" in r.getMessage()]

    [warning] = await warned(True)
    assert "service shop has no handler for the queues keyed, other" in warning
    assert await warned(Workers(concurrency=2)) == [warning]
    assert await warned(Workers(queues=["work"])) == []
    assert await warned(False) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"workers": "work"}, r"workers must be True, False or Workers\(queues="),
        ({"workers": ["work"]}, r"workers must be True, False or Workers\(queues="),
        ({"workers": Workers(queues="work")}, r"a list of names: queues=\['work'\]"),
        ({"url": 4222}, "as text, as in 'nats://127.0.0.1:4222', or as ConnectOptions, not as int"),
    ],
)
async def test_connect_refuses_what_it_would_misunderstand(wrong: Any, complaint: str) -> None:
    """`workers="work"` started the workers of all queues."""
    service = Service(ShopJobs)
    for queue in (service.jobs.work, service.jobs.other):
        queue.handle(ignore)
    with pytest.raises(DeclarationError, match=complaint):
        async with service.connect(**wrong):
            pass


async def ignore(_: ActiveJob[Task]) -> None:
    pass


async def test_an_address_that_is_none_is_not_tried_again() -> None:
    """A start that may wait for its server tried such an address without end."""
    async with asyncio.timeout(10):
        with pytest.raises(Unreachable, match="a URL is nats://host:port"):
            async with Service(ShopJobs).connect(
                "http://127.0.0.1:4222", workers=False, connect_timeout=None
            ):
                pass


@pytest.mark.parametrize("timeout", [float("nan"), "5", True])
async def test_a_connect_timeout_that_is_no_number_is_refused_at_once(timeout: Any) -> None:
    """NaN waited for ever, and text was a bare TypeError."""
    async with asyncio.timeout(10):
        with pytest.raises(DeclarationError, match="connect_timeout must be a number of seconds"):
            async with Service(ShopJobs).connect(
                "nats://127.0.0.1:9", workers=False, connect_timeout=timeout
            ):
                pass


def on_another_loop(make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Runs a coroutine in a thread with another event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(make())).result(30)


async def watched(ref: JobRef[None]) -> None:
    async for _ in ref.watch():
        return


async def test_a_call_on_another_event_loop_gets_an_error_with_the_remedy(
    server: EmbeddedServer,
) -> None:
    """Reproduction: `create()` from another loop or thread raised asyncio's own error, or hung."""
    async with Service(ShopJobs).connect(server.url, workers=False) as service:
        jobs = service.jobs
        ref = await jobs.work.create(Task(text="x"))
        calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            lambda: jobs.work.create(Task(text="x")),
            lambda: jobs.work.submit(Task(text="x")),
            lambda: jobs.work.create_many([Task(text="x")]),
            ref.get,
            ref.events,
            lambda: ref.wait(timeout=1),
            ref.cancel,
            lambda: watched(ref),
            service.wait,
            service.stop,
            service.drain,
        ]
        for call in calls:
            with pytest.raises(WrongEventLoop, match=r"connect_sync\(\).*run_coroutine_threadsafe"):
                await asyncio.to_thread(on_another_loop, call)
        loop = asyncio.get_running_loop()
        there = await asyncio.to_thread(
            lambda: asyncio.run_coroutine_threadsafe(ref.get(), loop).result(30)
        )
        assert there.state == "pending"
