"""A service with an OpenTelemetry SDK, in a separate process because providers are global.

Runs a few jobs on the server named on the command line, then prints as JSON what was exported
and what the log holds.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import nats
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.example_service import Report, Task
from tests.support.lab import LAB, lab_worker
from trellis_jobs import ActiveJob, JobEnded, JobRef, Service, Workers

tracer = trace.get_tracer("the user's own code")


async def main(url: str) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))

    jobs = await run_jobs(url)
    exported = {
        "jobs": jobs,
        "spans": [span_as_json(span) for span in exporter.get_finished_spans()],
        "metrics": metrics_as_json(reader),
        "messages": await stored_messages(url),
    }
    print(json.dumps(exported))


async def run_jobs(url: str) -> dict[str, str]:
    service, lab = Service(LAB), lab_worker()

    async def handle(active: ActiveJob[Task]) -> Report:
        with tracer.start_as_current_span("inside the handler"):
            return await lab.handle(active)

    service.jobs.work.handle(handle)
    async with service.connect(url, workers=Workers(queues=["work"])):
        with tracer.start_as_current_span("caller"):
            good = await service.jobs.work.create(Task())
        again = await service.jobs.work.create(Task(do="fail once"))
        hopeless = await service.jobs.work.create(Task(do="give up"))
        dead = await service.jobs.work.create(Task(do="always fail"))
        asleep = await service.jobs.work.create(Task(do="snooze once"))
        lazy = await service.jobs.work.create(Task(do="always snooze"))
        jobs = {
            "good": good,
            "again": again,
            "hopeless": hopeless,
            "dead": dead,
            "asleep": asleep,
            "lazy": lazy,
        }
        for ref in jobs.values():
            await ended(ref)
    return {name: ref.id for name, ref in jobs.items()}


async def ended(ref: JobRef[Report]) -> None:
    try:
        await ref.wait(timeout=20)
    except JobEnded:
        return


def span_as_json(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None
    return {
        "name": span.name,
        "trace": f"{context.trace_id:032x}",
        "id": f"{context.span_id:016x}",
        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
        "kind": span.kind.name,
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
    }


def metrics_as_json(reader: InMemoryMetricReader) -> dict[str, Any]:
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, Any] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                (point,) = metric.data.data_points
                attributes = dict(point.attributes or {})
                found[metric.name] = {"unit": metric.unit, "attributes": attributes, **read(point)}
    return found


def read(point: object) -> dict[str, Any]:
    match point:
        case HistogramDataPoint():
            bounds = list(point.explicit_bounds)
            return {"count": point.count, "sum": point.sum, "bounds": bounds}
        case NumberDataPoint():
            return {"count": point.value}
        case _:
            raise TypeError(point)


async def stored_messages(url: str) -> list[dict[str, Any]]:
    async with await nats.connect(url) as client:
        stream = client.jetstream()
        last = (await stream.stream_info("JOBS")).state.last_seq
        stored = [await stream.get_msg("JOBS", sequence) for sequence in range(1, last + 1)]
    return [
        {"subject": each.subject, "headers": each.headers, "body": json.loads(each.data or b"{}")}
        for each in stored
    ]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
