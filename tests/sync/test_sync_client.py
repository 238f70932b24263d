"""Jobs from code without an event loop: the same calls, from any thread."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, Final

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from tests.support.example_service import example_jobs
from tests.sync.helpdesk_jobs import helpdesk
from trellis_jobs import (
    Accepted,
    CalledInEventLoop,
    DeclarationError,
    JobCancelled,
    JobExists,
    JobFailed,
    JobNotFound,
    JobRef,
    NotConnected,
    PayloadInvalid,
    Queue,
    Rejected,
    Service,
    SyncJobRef,
    SyncQueue,
    Unreachable,
    WaitTimeout,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.service.runtime import Runtime
from trellis_jobs.testing import ConnectService, inline


async def threads_of_clients() -> int:
    return sum(each.name.startswith("trellis-jobs-sync") for each in threading.enumerate())


def test_jobs_are_created_found_and_cancelled_without_an_event_loop(jobs_server: str) -> None:
    with helpdesk().connect_sync(jobs_server) as client:
        shout = client.queue(helpdesk().jobs.shout)
        ref = shout.create("hello", job_id="one", deadline=60)
        assert ref.id == "one"
        assert ref.get().state == "pending"
        assert [event.kind.value for event in shout.ref("one").events()] == ["created"]
        with pytest.raises(WaitTimeout):
            ref.wait(timeout=0.05)
        ref.cancel("enough")
        with pytest.raises(JobCancelled, match="enough"):
            ref.wait()
        many = shout.create_many(word for word in ("a", "b"))
        assert [each.get().payload for each in many] == ["a", "b"]


def test_submit_answers_with_references_for_sync_code(jobs_server: str) -> None:
    with helpdesk().connect_sync(jobs_server) as client:
        keyed = client.queue(helpdesk().jobs.keyed)
        accepted = keyed.submit("a")
        assert isinstance(accepted, Accepted)
        assert accepted.ref.get().state == "pending"
        rejected = keyed.submit("a")
        assert isinstance(rejected, Rejected)
        assert rejected.existing_job_id == accepted.ref.id


def test_watching_a_job_does_not_end_as_if_it_were_over_when_the_client_is_closed(
    jobs_server: str,
) -> None:
    with helpdesk().connect_sync(jobs_server) as client:
        seen = client.queue(helpdesk().jobs.shout).create("slow").watch()
        assert next(seen).state == "pending"
        client.close()
        with pytest.raises(NotConnected):
            next(seen)


async def test_results_and_failures_are_those_of_the_job(
    connected_service: ConnectService, jobs_server: str
) -> None:
    service = helpdesk()

    def sync_code() -> list[str]:
        with service.connect_sync(jobs_server) as client:
            shout = client.queue(service.jobs.shout)
            assert shout.create("hello").wait(20) == "HELLO"
            with pytest.raises(JobFailed, match="not a word"):
                shout.create("bad").wait(20)
            return [job.state.value for job in shout.create("watched").watch()]

    async with connected_service(service, workers=True):
        states = await asyncio.to_thread(sync_code)
    assert (states[0], states[-1]) == ("pending", "completed")


def test_errors_are_those_of_the_async_calls(jobs_server: str) -> None:
    with helpdesk().connect_sync(jobs_server) as client:
        shout = client.queue(helpdesk().jobs.shout)
        wrong: Any = 7
        with pytest.raises(PayloadInvalid):
            shout.create(wrong)
        shout.create("a", job_id="one")
        with pytest.raises(JobExists):
            shout.create("a", job_id="one")
        with pytest.raises(JobNotFound):
            shout.ref("two").get()


def test_eight_threads_share_one_connection(jobs_server: str) -> None:
    shout = (client := helpdesk().connect_sync(jobs_server)).queue(helpdesk().jobs.shout)
    together = threading.Barrier(8)

    def create(number: int) -> list[str]:
        together.wait()
        return [shout.create(f"{number} {each}").id for each in range(10)]

    with ThreadPoolExecutor(8) as pool:
        created = [job_id for ids in pool.map(create, range(8)) for job_id in ids]
    assert len(set(created)) == 80
    assert client._bridge.run(lambda _: threads_of_clients()) == 1
    assert {shout.ref(each).get().state for each in created} == {"pending"}
    client.close()


def test_the_same_arguments_return_the_same_client(jobs_server: str) -> None:
    service = helpdesk()
    assert service.connect_sync(jobs_server) is service.connect_sync(jobs_server)
    assert service.connect_sync("nats://127.0.0.1:1") is not service.connect_sync(jobs_server)


def test_a_closed_client_connects_again_when_it_is_used(jobs_server: str) -> None:
    client = helpdesk().connect_sync(jobs_server)
    with client:
        with client:
            pass
        ref = client.queue(helpdesk().jobs.shout).create("a")
        assert ref.get().state == "pending", "another block is still open"
    assert client.queue(helpdesk().jobs.shout).ref(ref.id).get().state == "pending"
    client.close()
    client.close()


def test_a_call_that_runs_while_the_client_closes_says_so(jobs_server: str) -> None:
    client = helpdesk().connect_sync(jobs_server)
    ref, began = client.queue(helpdesk().jobs.shout).create("a"), threading.Event()

    async def wait(_: Runtime) -> None:
        began.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client._bridge.run, wait)
        began.wait(20)
        client.close()
        with pytest.raises(NotConnected, match="connect_sync"):
            waiting.result(20)
    assert ref.get().state == "pending"
    client.close()


def test_an_unreachable_server_is_named_and_tried_again_at_the_next_call() -> None:
    with EmbeddedServer.start() as server:
        url = server.url
    shout = (client := helpdesk().connect_sync(url)).queue(helpdesk().jobs.shout)
    with pytest.raises(Unreachable):
        shout.create("a")
    with EmbeddedServer.start(port=int(url.rsplit(":", 1)[1])):
        assert shout.create("a").get().state == "pending"
        client.close()


async def test_it_refuses_to_block_an_event_loop(jobs_server: str) -> None:
    client = helpdesk().connect_sync(jobs_server)
    with pytest.raises(CalledInEventLoop, match=r"asyncio\.to_thread"):
        client.queue(helpdesk().jobs.shout).create("a")
    with pytest.raises(CalledInEventLoop), client:
        pass
    ref = await asyncio.to_thread(client.queue(helpdesk().jobs.shout).create, "a")
    assert ref.id
    client.close()


async def test_a_service_is_connected_both_ways_at_once(
    connected_service: ConnectService, jobs_server: str
) -> None:
    """A sync handler creates jobs with the client while its service runs in this process."""
    service = helpdesk()
    client = service.connect_sync(jobs_server)

    @service.jobs.keyed.handle
    def keyed(active: Any) -> str:
        return client.queue(service.jobs.shout).create(active.payload).wait(20)

    async with connected_service(service, workers=True):
        assert await (await service.jobs.keyed.create("deep")).wait(20) == "DEEP"
    client.close()


async def test_within_inline_its_jobs_run_where_they_are_created() -> None:
    """A web application can be tested without a server: the URL is not used."""
    service = helpdesk()
    client = service.connect_sync("nats://127.0.0.1:1")

    @service.jobs.keyed.handle
    def keyed(active: Any) -> str:
        return client.queue(service.jobs.shout).create(active.payload).wait()

    def sync_code() -> str:
        with client:
            ref = client.queue(service.jobs.keyed).create("deep")
            assert ref.get().state == "completed"
            return ref.wait()

    async with inline(service):
        assert await asyncio.to_thread(sync_code) == "DEEP"


class Request:
    """What a web framework keeps in a context variable."""


REQUEST: ContextVar[Request] = ContextVar("REQUEST")


async def current_request(_: Runtime) -> weakref.ref[Request]:
    return weakref.ref(REQUEST.get())


def test_a_call_has_the_context_of_its_caller_and_the_connection_has_none(
    jobs_server: str,
) -> None:
    """A trace goes on in the job; what belongs to one request is not kept by the connection."""
    client = helpdesk().connect_sync(jobs_server)

    def handle_request() -> weakref.ref[Request]:
        REQUEST.set(Request())
        kept = client._bridge.run(current_request)
        assert kept() is REQUEST.get()
        return kept

    kept = copy_context().run(handle_request)
    client._bridge.run(lambda _: threads_of_clients())
    gc.collect()
    assert kept() is None
    client.close()


def test_a_job_belongs_to_the_trace_of_its_caller(jobs_server: str) -> None:
    caller = SpanContext(
        trace_id=0xA11CE, span_id=0xB0B, is_remote=False, trace_flags=TraceFlags(1)
    )
    with helpdesk().connect_sync(jobs_server) as client, use_span(NonRecordingSpan(caller)):
        ref = client.queue(helpdesk().jobs.shout).create("a")
        assert f"{0xA11CE:032x}" in (ref.get().context.traceparent or "")


OTHER: Final = example_jobs(
    "other",
    str,
    type(None),
    work={},
)


def test_a_queue_of_another_service_is_refused() -> None:
    with pytest.raises(DeclarationError, match="belongs to service 'other'"):
        helpdesk().connect_sync("nats://127.0.0.1:1").queue(Service(OTHER).jobs.work)


def calls(found: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(value)
        for name, value in vars(found).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


@pytest.mark.parametrize(("sync", "original"), [(SyncQueue, Queue), (SyncJobRef, JobRef)])
def test_sync_calls_take_what_async_calls_take(sync: type, original: type) -> None:
    offered, expected = calls(sync), calls(original)
    expected.pop("handle", None)
    assert offered.keys() == expected.keys()
    for name, signature in offered.items():
        assert signature.parameters == expected[name].parameters, name
