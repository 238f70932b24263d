"""What a service with an OpenTelemetry SDK exports, and what its events carry."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import trellis_jobs
from trellis_jobs.embedded import EmbeddedServer

Span = dict[str, Any]
QUEUE = {"trellis_jobs.service": "lab", "trellis_jobs.queue": "work"}


@dataclass
class Exported:
    jobs: dict[str, str]
    spans: list[Span]
    metrics: dict[str, Any]
    messages: list[dict[str, Any]]

    def span(self, name: str, job: str) -> Span:
        """The first such span of one job, or of the trace that the job belongs to."""
        (trace,) = {span["trace"] for span in self.spans_of(job)}
        return next(s for s in self.spans if s["name"] == name and s["trace"] == trace)

    def spans_of(self, job: str) -> list[Span]:
        job_id = self.jobs[job]
        return [s for s in self.spans if s["attributes"].get("trellis_jobs.job_id") == job_id]

    def events_of(self, job: str) -> list[dict[str, Any]]:
        return [m for m in self.messages if f".{self.jobs[job]}." in m["subject"]]


@pytest.fixture(scope="module")
def exported() -> Exported:
    with EmbeddedServer.start() as server:
        argv = (sys.executable, "-m", "tests.telemetry.traced_service", server.url)
        root = Path(trellis_jobs.__file__).parent.parent
        output = subprocess.check_output(argv, cwd=root)
    return Exported(**json.loads(output))


def test_one_trace_leads_from_the_caller_to_what_the_handler_does(exported: Exported) -> None:
    caller = exported.span("caller", "good")
    create = exported.span("trellis_jobs.create", "good")
    process = exported.span("trellis_jobs.process", "good")
    inside = exported.span("inside the handler", "good")
    assert caller["parent"] is None
    assert create["parent"] == caller["id"]
    assert process["parent"] == create["id"]
    assert inside["parent"] == process["id"]
    assert (create["kind"], process["kind"]) == ("PRODUCER", "CONSUMER")


def test_every_lifecycle_append_is_a_span_of_that_trace(exported: Exported) -> None:
    # A second try first appends `started` after `created`, and is refused.
    appends = [
        span
        for span in exported.spans_of("again")
        if span["name"] == "trellis_jobs.append"
        and "trellis_jobs.refused" not in span["attributes"]
    ]
    assert [s["attributes"]["trellis_jobs.event"] for s in appends] == [
        *("created", "started", "retry", "started", "completed")
    ]
    assert {s["kind"] for s in appends} == {"CLIENT"}
    create = exported.span("trellis_jobs.create", "again")
    assert appends[0]["parent"] == create["id"]
    processes = [s["id"] for s in exported.spans_of("again") if s["name"].endswith("process")]
    assert [appends[2]["parent"], appends[4]["parent"]] == processes


def test_jobs_without_a_caller_have_separate_traces(exported: Exported) -> None:
    traces = {exported.span("trellis_jobs.create", job)["trace"] for job in exported.jobs}
    assert len(traces) == len(exported.jobs)


def test_spans_name_service_queue_and_job(exported: Exported) -> None:
    ours = [s for s in exported.spans if s["name"].startswith("trellis_jobs.")]
    for span in ours:
        assert QUEUE.items() <= span["attributes"].items()
        assert span["attributes"]["trellis_jobs.job_id"] in exported.jobs.values()


def test_an_attempt_that_failed_is_an_error_in_its_trace(exported: Exported) -> None:
    def statuses(job: str) -> list[str]:
        spans = exported.spans_of(job)
        return [s["status"] for s in spans if s["name"] == "trellis_jobs.process"]

    assert statuses("good") == ["UNSET"]
    assert statuses("again") == ["ERROR", "UNSET"]
    assert statuses("hopeless") == ["ERROR"]
    assert statuses("asleep") == ["UNSET", "UNSET"]
    assert statuses("lazy") == ["UNSET", "UNSET", "ERROR"]


def test_metrics_count_what_happened(exported: Exported) -> None:
    counted = {name: metric["count"] for name, metric in exported.metrics.items()}
    assert counted == {
        "trellis_jobs.created": 6,
        "trellis_jobs.started": 1 + 2 + 1 + 3 + 2 + 3,
        "trellis_jobs.completed": 3,
        "trellis_jobs.failed": 2,
        "trellis_jobs.dead": 1,
        "trellis_jobs.retried": 1 + 2,
        "trellis_jobs.snoozed": 1 + 2,
        "trellis_jobs.duration": 1 + 2 + 1 + 3 + 2 + 3,
        "trellis_jobs.queue_wait": 6,
    }


def test_metrics_are_per_service_and_queue_and_times_are_in_seconds(exported: Exported) -> None:
    for metric in exported.metrics.values():
        assert metric["attributes"] == QUEUE
    for name in ("trellis_jobs.duration", "trellis_jobs.queue_wait"):
        assert exported.metrics[name]["unit"] == "s"
        assert 0 < exported.metrics[name]["sum"] < 20


def test_histograms_tell_milliseconds_from_seconds_and_minutes_from_hours(
    exported: Exported,
) -> None:
    """OpenTelemetry's own boundaries (5, 10, 25, … 10,000) are for milliseconds, ours are seconds:
    every job of less than five seconds was in one bucket."""
    for name in ("trellis_jobs.duration", "trellis_jobs.queue_wait"):
        bounds = exported.metrics[name]["bounds"]
        assert bounds[0] == 0.005
        assert {0.1, 1.0, 60.0, 3600.0, 86400.0} <= set(bounds)


@pytest.mark.parametrize("job", ["good", "again", "hopeless", "dead"])
def test_every_event_carries_the_context_of_its_creation(exported: Exported, job: str) -> None:
    create = exported.span("trellis_jobs.create", job)
    events = exported.events_of(job)
    for event in events:
        context = event["body"]["context"]
        assert event["headers"]["request-id"] == context["requestId"]
        assert event["headers"]["traceparent"] == context["traceparent"]
        assert context["traceparent"].startswith(f"00-{create['trace']}-{create['id']}-")
    assert len({event["headers"]["request-id"] for event in events}) == 1
