"""OpenTelemetry spans and metrics. Without an SDK each call costs one comparison.

    span                         when                                    kind
    trellis_jobs.create          a job is created                        producer
    trellis_jobs.process         an attempt runs its handler             consumer
    trellis_jobs.append          one lifecycle event goes into the log   client
    trellis_jobs.rpc             the admin runtime answers a request     server

    metric                       unit   counts or measures
    trellis_jobs.created         {job}  jobs created
    trellis_jobs.started         {try}  attempts started
    trellis_jobs.completed       {job}  jobs completed
    trellis_jobs.failed          {job}  jobs failed: the error was permanent
    trellis_jobs.dead            {job}  jobs dead: every try was used up
    trellis_jobs.retried         {try}  attempts that will be tried again
    trellis_jobs.snoozed         {try}  attempts that ended with a snooze, which is no failure
    trellis_jobs.duration        s      how long handlers ran
    trellis_jobs.queue_wait      s      from creation to the start of the first attempt
    trellis_jobs.loop_blocked    s      how long a worker's event loop was blocked, from 1 s
    trellis_jobs.rpc.duration    s      how long the admin runtime took to answer a request

Attributes: trellis_jobs.service and trellis_jobs.queue (on loop_blocked only if the job that
blocked the loop is known). On spans also trellis_jobs.job_id. On append also trellis_jobs.event,
and trellis_jobs.refused if another event came first. On process also error.type, with an error
status, if the attempt failed. On rpc: rpc.method, and error.type if the request was refused.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
)
from opentelemetry.trace.propagation import set_span_in_context

from trellis_jobs.model.context import JobContext
from trellis_jobs.model.events import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job_errors import JobError

_SCOPE: Final = "trellis_jobs"
# In seconds. OpenTelemetry's default boundaries are made for milliseconds.
_DURATION_BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 300.0, 900.0, 3_600.0, 10_800.0, 43_200.0, 86_400.0),
)
_BLOCK_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_NO_SPAN: Final[AbstractContextManager[None]] = nullcontext()


def has_provider() -> bool:
    """Whether an SDK is configured for spans or metrics."""
    return _tracer() is not None or _has_metrics()


def _tracer() -> trace.Tracer | None:
    provider = trace.get_tracer_provider()
    is_configured = not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    return trace.get_tracer(_SCOPE) if is_configured else None


def _has_metrics() -> bool:
    """Whether an SDK is configured: the API's own provider drops all measurements."""
    return not type(metrics.get_meter_provider()).__module__.startswith(metrics.__name__)


class RequestTelemetry:
    """Telemetry of the admin runtime: one span and one measurement for each request."""

    def __init__(self) -> None:
        self._tracer = _tracer()
        self._duration = metrics.get_meter(_SCOPE).create_histogram(
            f"{_SCOPE}.rpc.duration",
            "s",
            "how long requests took",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )

    def answering(self, method: str) -> AbstractContextManager[object]:
        if self._tracer is None:
            return _NO_SPAN
        return self._tracer.start_as_current_span(
            f"{_SCOPE}.rpc", kind=SpanKind.SERVER, attributes={"rpc.method": method}
        )

    def record_answer(self, method: str, seconds: float, refusal: str | None) -> None:
        """`refusal` is the type of the error in the answer, if there is one."""
        attributes = {"rpc.method": method} | ({"error.type": refusal} if refusal else {})
        self._duration.record(seconds, attributes)
        if self._tracer is not None and refusal is not None:
            span = trace.get_current_span()
            span.set_attribute("error.type", refusal)
            span.set_status(StatusCode.ERROR, refusal)


class Telemetry:
    """Checks once, when a service connects, whether an SDK is configured."""

    def __init__(self) -> None:
        self._tracer = _tracer()
        self.has_metrics = _has_metrics()
        meter = metrics.get_meter(_SCOPE)
        self._counters: Mapping[EventKind, metrics.Counter] = _counters(meter)
        self._snoozed = meter.create_counter(
            f"{_SCOPE}.snoozed", "{try}", "attempts that ended with a snooze"
        )
        self._duration = meter.create_histogram(
            f"{_SCOPE}.duration",
            "s",
            "how long handlers ran",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self._queue_wait = meter.create_histogram(
            f"{_SCOPE}.queue_wait",
            "s",
            "from creation to the start of the first attempt",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self._loop_blocked = meter.create_histogram(
            f"{_SCOPE}.loop_blocked",
            "s",
            "how long a worker's event loop was blocked",
            explicit_bucket_boundaries_advisory=_BLOCK_BUCKETS,
        )

    @property
    def has_tracing(self) -> bool:
        return self._tracer is not None

    def creating(self, job: JobAddress) -> AbstractContextManager[object]:
        if self._tracer is None:
            return _NO_SPAN
        return self._tracer.start_as_current_span(
            f"{_SCOPE}.create", kind=SpanKind.PRODUCER, attributes=_attributes(job)
        )

    def current_context(self, request_id: str) -> JobContext | None:
        """Returns the context for a new job in the current span. Returns None without a span."""
        span = trace.get_current_span().get_span_context()
        if not span.is_valid:
            return None
        traceparent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"
        return JobContext(request_id, traceparent, span.trace_state.to_header() or None)

    def processing(self, job: JobAddress, context: JobContext) -> AbstractContextManager[object]:
        if self._tracer is None:
            return _NO_SPAN
        return self._tracer.start_as_current_span(
            f"{_SCOPE}.process",
            context=_remote_parent(context),
            kind=SpanKind.CONSUMER,
            attributes=_attributes(job),
            record_exception=False,
        )

    def appending(self, event: Event) -> AbstractContextManager[object]:
        if self._tracer is None:
            return _NO_SPAN
        parent = (
            None
            if trace.get_current_span().get_span_context().is_valid
            else _remote_parent(event.context)
        )
        return self._tracer.start_as_current_span(
            f"{_SCOPE}.append",
            context=parent,
            kind=SpanKind.CLIENT,
            attributes={**_attributes(event.job), f"{_SCOPE}.event": event.kind.value},
        )

    def mark_refused(self) -> None:
        """Marks the current span's append as refused, because another event came first."""
        if self._tracer is not None:
            trace.get_current_span().set_attribute(f"{_SCOPE}.refused", True)

    def mark_failed(self, error: JobError) -> None:
        """Marks the current span's attempt as failed."""
        if self._tracer is not None:
            span = trace.get_current_span()
            span.set_attribute("error.type", error.type)
            span.set_status(StatusCode.ERROR, error.message)

    def count(self, event: Event) -> None:
        if not self.has_metrics:
            return
        counter = self._snoozed if event.is_snooze else self._counters.get(event.kind)
        if counter is not None:
            counter.add(1, _queue_of(event.job))

    def record_run(self, job: JobAddress, seconds: float) -> None:
        if self.has_metrics:
            self._duration.record(seconds, _queue_of(job))

    def record_wait(self, job: JobAddress, seconds: float) -> None:
        if self.has_metrics:
            self._queue_wait.record(seconds, _queue_of(job))

    def record_block(self, job: JobAddress | None, seconds: float) -> None:
        if self.has_metrics:
            self._loop_blocked.record(seconds, None if job is None else _queue_of(job))


def _counters(meter: metrics.Meter) -> Mapping[EventKind, metrics.Counter]:
    return {
        EventKind.CREATED: meter.create_counter(f"{_SCOPE}.created", "{job}", "jobs created"),
        EventKind.STARTED: meter.create_counter(f"{_SCOPE}.started", "{try}", "attempts started"),
        EventKind.COMPLETED: meter.create_counter(f"{_SCOPE}.completed", "{job}", "jobs completed"),
        EventKind.RETRY: meter.create_counter(
            f"{_SCOPE}.retried", "{try}", "attempts that will be tried again"
        ),
        EventKind.FAILED: meter.create_counter(f"{_SCOPE}.failed", "{job}", "jobs failed"),
        EventKind.DEAD: meter.create_counter(f"{_SCOPE}.dead", "{job}", "jobs dead"),
    }


def _remote_parent(context: JobContext) -> Context:
    _, trace_id, span_id, flags = context.traceparent.split("-")
    span = SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([context.tracestate] if context.tracestate else []),
    )
    return set_span_in_context(NonRecordingSpan(span), Context())


def _attributes(job: JobAddress) -> dict[str, str]:
    return {**_queue_of(job), f"{_SCOPE}.job_id": job.job_id}


def _queue_of(job: JobAddress) -> dict[str, str]:
    return {f"{_SCOPE}.service": job.service, f"{_SCOPE}.queue": job.job_type}
