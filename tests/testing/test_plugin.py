"""The plugin in a separate project: it is loaded, starts a server only if needed, and stops it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.testing.user_project import SETTINGS, run_pytest

SHOP: Final = """
from trellis_jobs import Jobs, Service, job

class ShopJobs(Jobs, service="shop"):
    pack = job(int, int)

def make():
    service = Service(ShopJobs)

    @service.jobs.pack.handle
    async def pack(job):
        return job.payload + 1

    return service

service = make()
"""
TESTS: Final = """
import os
from pathlib import Path
import pytest
from shop import make, service
from trellis_jobs.testing import assert_enqueued, drain, refute_enqueued

@pytest.fixture(autouse=True)
def write_down_the_servers(jobs_server, jobs_accounts):
    for running in jobs_accounts._running:
        Path(f"server.{os.getpid()}.{running.server.pid}").touch()

@pytest.mark.parametrize("n", range(6))
async def test_passes(connected_service, n):
    async with connected_service(service):
        await refute_enqueued(service.jobs.pack)
        ref = await service.jobs.pack.create(n)
        await drain(service)
        assert await ref.wait() == n + 1

async def test_fails(connected_service):
    async with connected_service(service):
        await assert_enqueued(service.jobs.pack, 7)

left_running = []

@pytest.mark.parametrize("n", range(3))
async def test_leaves_a_worker_running(connected_service, n):
    left_running.append(connected_service(make(), workers=True))
    await left_running[-1].__aenter__()

@pytest.mark.parametrize("n", range(3))
async def test_after_it(connected_service, n):
    async with connected_service(service):
        await service.jobs.pack.create(1)
        await assert_enqueued(service.jobs.pack, 1, count=1)
"""
PLAIN: Final = """
import sys

def test_plain(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("trellis-jobs")
    assert "pytest_trellis_jobs" in sys.modules
    assert not {"trellis_jobs", "nats", "pydantic"} & sys.modules.keys()
"""
CLOCK: Final = """
from shop import service
from trellis_jobs.testing import inline

async def test_later(jobs_clock):
    async with inline(service, clock=jobs_clock):
        ref = await service.jobs.pack.create(1, delay=3600)
        await jobs_clock.advance(hours=1)
        assert await ref.wait() == 2

def test_another_clock(jobs_clock):
    from datetime import UTC, datetime, timedelta
    assert jobs_clock.now() < datetime.now(UTC) + timedelta(minutes=30)
"""
SYNC: Final = """
import asyncio
from shop import service

def test_sync(jobs_server):
    async def create():
        async with service.connect(jobs_server) as connected:
            return await (await connected.jobs.pack.create(1)).wait(timeout=10)

    assert asyncio.run(create()) == 2
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    return tmp_path


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("options", "processes"), [((), 1), (("-n", "2"), 2)])
def test_a_project_passes_and_fails_as_it_should_and_leaves_nothing_running(
    project: Path, options: tuple[str, ...], processes: int
) -> None:
    (project / "test_shop.py").write_text(TESTS, encoding="utf-8")
    result = run_pytest(project, *options)
    assert result.counts == {"passed": 12, "failed": 1}, result.text
    assert "expected a job matching 7, found 0 among 0 in queue 'pack'" in result.text
    used = [tuple(map(int, file.name.split(".")[1:])) for file in project.glob("server.*")]
    assert len({tester for tester, _ in used}) == processes
    assert len(used) == processes, "one server for each process"
    assert not any(runs(server) for _, server in used)
    assert list((project / "tmp").glob("trellis-jobs-*")) == [], "nor are their folders there"


def test_a_project_that_uses_no_fixture_pays_for_nothing(project: Path) -> None:
    (project / "test_plain.py").write_text(PLAIN, encoding="utf-8")
    result = run_pytest(project)
    assert result.counts == {"passed": 1}, result.text


def test_each_test_gets_a_clock_of_its_own(project: Path) -> None:
    (project / "test_clock.py").write_text(CLOCK, encoding="utf-8")
    result = run_pytest(project)
    assert result.counts == {"passed": 2}, result.text


def test_a_project_without_pytest_asyncio_can_use_the_server(project: Path) -> None:
    (project / "pyproject.toml").write_text("", encoding="utf-8")
    (project / "test_sync.py").write_text(SYNC, encoding="utf-8")
    result = run_pytest(project, "-p", "no:asyncio")
    assert result.counts == {"passed": 1}, result.text


def test_a_missing_server_binary_is_reported(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import shutil\nshutil.which = lambda *_, **__: None\n", encoding="utf-8"
    )
    (project / "test_shop.py").write_text("def test_it(jobs_server): pass\n", encoding="utf-8")
    result = run_pytest(project)
    assert result.counts == {"error": 1}, result.text
    assert "pip install 'trellis-jobs[embedded]'" in result.text
