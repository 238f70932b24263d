"""Without an OpenTelemetry SDK nothing is recorded, and jobs can still be traced later."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from tests.support.example_service import Report, Task
from tests.support.lab import LAB, producer
from trellis_jobs import ActiveJob, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.context import is_traceparent


async def test_each_job_starts_a_separate_trace(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        contexts = [(await (await jobs.work.create(Task())).get()).context for _ in range(2)]
    first, second = contexts
    assert is_traceparent(first.traceparent)
    assert is_traceparent(second.traceparent)
    assert first.trace_id != second.trace_id
    assert first.request_id != second.request_id


async def test_jobs_that_are_created_at_once_share_their_request_and_not_their_trace(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs:
        refs = await jobs.work.create_many([Task(), Task()])
        first, second = [(await ref.get()).context for ref in refs]
    assert first.request_id == second.request_id
    assert first.trace_id != second.trace_id


async def test_no_span_surrounds_the_handler(server: EmbeddedServer) -> None:
    service = Service(LAB)
    seen: list[bool] = []

    async def handle(active: ActiveJob[Task]) -> Report:
        seen.append(trace.get_current_span().get_span_context().is_valid)
        return Report(text="", tries=active.tries)

    service.jobs.work.handle(handle)
    async with service.connect(server.url, workers=Workers(queues=["work"])):
        ref = await service.jobs.work.create(Task())
        await ref.wait(timeout=10)
    assert seen == [False]


async def test_a_span_that_came_from_elsewhere_is_passed_on(server: EmbeddedServer) -> None:
    """A web framework may have read the trace headers of its request, SDK or not."""
    arrived = SpanContext(
        trace_id=0x4BF92F3577B34DA6A3CE929D0E0E4736,
        span_id=0x00F067AA0BA902B7,
        is_remote=True,
        trace_flags=TraceFlags(1),
        trace_state=TraceState([("vendor", "value")]),
    )
    async with producer(server.url) as jobs:
        with trace.use_span(NonRecordingSpan(arrived)):
            refs = [await jobs.work.create(Task()), *await jobs.work.create_many([Task()] * 2)]
        contexts = [(await ref.get()).context for ref in refs]
    for context in contexts:
        assert context.traceparent == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        assert context.tracestate == "vendor=value"
