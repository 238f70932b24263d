"""With OTEL_* variables, worker and admin runtime send spans and metrics, the last ones at SIGTERM.

Nothing is sent before: all intervals are an hour.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.telemetry import set_up_telemetry
from tests.cli.command import running
from tests.telemetry.collector import Collector, collecting
from tests.telemetry.sluggish import SLUGGISH as SLUGGISH_JOBS
from trellis_jobs import Service
from trellis_jobs.embedded import EmbeddedServer

SLUGGISH = "tests.telemetry.sluggish:service"
RARELY = {"OTEL_BSP_SCHEDULE_DELAY": "3600000", "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


def to(collector: Collector, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **RARELY, **more}


async def output_after_one_job(
    server: EmbeddedServer,
    folder: Path,
    env: dict[str, str],
    *,
    seconds: float = 0,
    under: tuple[str, ...] = (),
) -> str:
    """A worker does one job and gets SIGTERM; what it logged."""
    command = ("worker", SLUGGISH, "--nats", server.url)
    with running(folder, *command, env=env, under=under) as worker:
        async with Service(SLUGGISH_JOBS).connect(server.url, workers=False) as producing:
            ref = await producing.jobs.block.create(seconds)
            await ref.wait(timeout=20)
        await worker.until_prints("worker started")
        if seconds:
            await worker.until_prints("the event loop was blocked")
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0, worker.printed
        return worker.printed


async def test_a_worker_sends_what_it_did(
    server: EmbeddedServer, collector: Collector, tmp_path: Path
) -> None:
    output = await output_after_one_job(server, tmp_path, to(collector), seconds=2.5)
    below = output.partition("the event loop has been blocked")[2].splitlines()[1]
    assert "tests/telemetry/sluggish.py" in below, "the stack begins with the handler"
    assert collector.has("traces", "trellis_jobs.process", "trellis_jobs.append", "sluggish")
    assert collector.has("metrics", "trellis_jobs.completed", "trellis_jobs.duration")
    assert collector.has("metrics", "trellis_jobs.loop_blocked")
    assert not collector.bodies["logs"]


async def test_names_and_signals_are_those_of_the_environment(
    server: EmbeddedServer, collector: Collector, tmp_path: Path
) -> None:
    env = to(collector, OTEL_SERVICE_NAME="named-by-hand", OTEL_METRICS_EXPORTER="none")
    await output_after_one_job(server, tmp_path, env)
    assert collector.has("traces", "named-by-hand")
    assert not collector.bodies["metrics"]


async def test_a_disabled_sdk_sends_nothing(
    server: EmbeddedServer, collector: Collector, tmp_path: Path
) -> None:
    await output_after_one_job(server, tmp_path, to(collector, OTEL_SDK_DISABLED="true"))
    assert not collector.bodies


async def test_without_the_sdk_one_warning_says_what_to_install(
    server: EmbeddedServer, collector: Collector, tmp_path: Path
) -> None:
    env = to(collector, OTEL_PYTHON_CONFIGURATOR="one that is not installed")
    output = await output_after_one_job(server, tmp_path, env)
    assert output.count("pip install 'trellis-jobs[otel]'") == 1
    assert not collector.bodies


async def test_an_exporter_that_is_not_installed_is_logged_and_jobs_run(
    server: EmbeddedServer, collector: Collector, tmp_path: Path
) -> None:
    """The worker ended with a traceback."""
    output = await output_after_one_job(
        server, tmp_path, to(collector, OTEL_TRACES_EXPORTER="absent")
    )
    assert "nothing is exported: the OpenTelemetry SDK could not be set up" in output
    assert "'absent' not found" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("value", ["", "none"])
def test_a_variable_that_disables_traces_does_not_enable_metrics(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """`OTEL_TRACES_EXPORTER=none` alone turned metrics on, to a collector on this machine."""
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", value)
    set_up_telemetry("shop")
    assert "OTEL_METRICS_EXPORTER" not in os.environ


async def test_opentelemetry_instrument_runs_a_worker(
    server: EmbeddedServer, collector: Collector, tmp_path: Path
) -> None:
    instrument = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    env = to(collector, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf", OTEL_SERVICE_NAME="wrapped")
    await output_after_one_job(server, tmp_path, env, under=(instrument,))
    assert collector.has("traces", "trellis_jobs.process", "wrapped")
    assert collector.has("metrics", "trellis_jobs.completed")


async def test_the_admin_runtime_sends_its_requests(
    server: EmbeddedServer, collector: Collector, tmp_path: Path
) -> None:
    serve = ("admin", "serve", "--provision", "--db", str(tmp_path / "jobs.sqlite"))
    with running(tmp_path, *serve, "--nats", server.url, env=to(collector)) as admin:
        await admin.until_prints("admin runtime started")
        async with AdminClient.connect(server.url) as client:
            await client.health()
        admin.send(signal.SIGTERM)
        assert await admin.until_exit() == 0, admin.output
    assert collector.has("traces", "trellis_jobs.rpc", "Jobs.Health", "jobs-admin")
    assert collector.has("metrics", "trellis_jobs.rpc.duration")
