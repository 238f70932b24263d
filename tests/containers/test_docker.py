"""The official image in Docker, for those who have it; nothing else in this project needs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.example_service import Task
from tests.support.lab import probe, worker

IMAGE: Final = os.environ.get("NATS_IMAGE", "nats:2.15")
PORT: Final = 4222
ASK_DOCKER: Final = 10.0


def engine_answers() -> bool:
    """A client without an engine behind it is as good as none."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        asked = subprocess.run(
            (docker, "info"), capture_output=True, timeout=ASK_DOCKER, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    if not engine_answers():
        pytest.skip("no Docker engine answers")
    # Not at the top: looking for an engine begins with the import.
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy  # noqa: PLC0415

    container = (
        DockerContainer(IMAGE)
        .with_command(["--jetstream", "--store_dir", "/data"])
        .with_exposed_ports(PORT)
        .waiting_for(LogMessageWaitStrategy("Server is ready"))
    )
    with container as running:
        yield f"nats://{running.get_container_host_ip()}:{running.get_exposed_port(PORT)}"


@pytest.mark.timeout(300)  # the image may have to be fetched first
async def test_a_job_runs_on_the_official_image(url: str) -> None:
    async with worker(url, "work") as bench, probe(url) as raw:
        ref = await bench.jobs.work.create(Task(text="in a container"))
        report = await ref.wait(timeout=30)
        assert (report.text, report.tries) == ("in a container", 1)
        assert await raw.kinds(ref) == ["created", "started", "completed"]
        await raw.until_empty()
