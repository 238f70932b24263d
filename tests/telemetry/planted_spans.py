"""Runs jobs with planted secrets under an OpenTelemetry SDK, and prints all spans and metrics."""

from __future__ import annotations

import asyncio
import sys

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.planted import DOINGS, charge_that, planted_service
from trellis_jobs import JobEnded, PayloadInvalid


async def main(url: str) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    async with planted_service().connect(url) as service:
        for does in DOINGS:
            try:
                await (await service.jobs.charge.create(charge_that(does))).wait(timeout=20)
            except JobEnded:
                continue
        wrong = {**charge_that("answer").model_dump(), "cvc": "4000-0000-1234"}
        try:
            await service.jobs.charge.create(wrong)  # type: ignore[arg-type]
        except PayloadInvalid as refused:
            print(refused)
    for span in exporter.get_finished_spans():
        print(span.to_json())
    data = reader.get_metrics_data()
    print("" if data is None else data.to_json())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
