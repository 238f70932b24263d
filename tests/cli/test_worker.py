"""`trellis-jobs worker`, run for real: what it does, and how it ends."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.admin.test_health import get
from tests.cli.command import running
from tests.cli.shop import ShopJobs
from tests.support.facts import until
from tests.support.lab import probe
from trellis_jobs import JobRef, JobState, Service
from trellis_jobs.embedded import EmbeddedServer

SHOP = "tests.cli.shop:service"
STARTED = "worker started"


@pytest.fixture
async def jobs(server: EmbeddedServer) -> AsyncIterator[ShopJobs]:
    async with Service(ShopJobs).connect(server.url, workers=False) as producing:
        yield producing.jobs


async def until_state(ref: JobRef[object], state: JobState) -> None:
    async def reached() -> bool:
        return (await ref.get()).state is state

    await until(reached, f"{ref} is {state}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_runs_jobs_until_a_signal_and_ends_with_0(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path, "worker", SHOP, "--nats", server.url) as worker:
        ref = await jobs.greet.create("ada")
        assert await ref.wait(timeout=20) == "hello ada"
        await worker.until_prints(STARTED)
        worker.send(number)
        assert await worker.until_exit() == 0, worker.printed
        assert "worker stopped" in worker.printed


async def test_a_burst_does_what_waits_and_ends_with_0(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path
) -> None:
    refs = await jobs.greet.create_many(["ada", "grace", "jean"])
    with running(tmp_path, "worker", SHOP, "--nats", server.url, "--burst") as worker:
        assert await worker.until_exit() == 0, worker.printed
    assert [(await ref.get()).state for ref in refs] == [JobState.COMPLETED] * 3


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--queues", "nap,greet", "--total-concurrency", "1"), {}),
        ((), {"TRELLIS_JOBS_QUEUES": "nap,greet", "TRELLIS_JOBS_TOTAL_CONCURRENCY": "1"}),
        (("--queues", "nap=9,greet=1", "--total-concurrency", "1"), {}),
    ],
)
async def test_queues_have_an_order_under_a_total_limit(
    server: EmbeddedServer,
    jobs: ShopJobs,
    tmp_path: Path,
    options: tuple[str, ...],
    variables: dict[str, str],
) -> None:
    greeted = await jobs.greet.create_many(["ada", "grace"])
    napped = await jobs.nap.create_many([0.0, 0.0, 0.0])
    async with probe(server.url) as raw:
        await raw.until_queued(5)
    arguments = ("worker", SHOP, "--nats", server.url, "--burst", *options)
    with running(tmp_path, *arguments, env=variables) as worker:
        assert await worker.until_exit() == 0, worker.printed
    ends = {ref.id: (await ref.get()).updated_at for ref in (*greeted, *napped)}
    assert max(ends[ref.id] for ref in napped) < min(ends[ref.id] for ref in greeted)


async def test_a_burst_logs_what_went_wrong_and_does_not_wait_for_later_tries(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path
) -> None:
    ref = await jobs.nap.create(-1)
    with running(tmp_path, "worker", SHOP, "--nats", server.url, "--burst") as worker:
        assert await worker.until_exit() == 0, worker.printed
    assert (await ref.get()).state is JobState.RETRY
    assert "failed on try 1 of" in worker.printed
    assert "ValueError: a nap cannot be negative" in worker.printed


async def test_a_signal_ends_a_burst_before_its_work_is_done(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path
) -> None:
    ref = await jobs.nap.create(60)
    command = ("worker", SHOP, "--nats", server.url, "--burst", "--grace", "0.1")
    with running(tmp_path, *command) as worker:
        await until_state(ref, JobState.ACTIVE)
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0, worker.printed
    assert (await ref.get()).state is JobState.RETRY


async def test_a_service_is_found_in_the_current_directory(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = "from trellis_jobs import Jobs, Service, job\n"
    app += "class A(Jobs, service='a'):\n    go = job(str)\n"
    app += "class shelf:\n    service = Service(A)\n"
    app += "@shelf.service.jobs.go.handle\ndef go(job): pass\n"
    (tmp_path / "app.py").write_text(app)
    command = ("worker", "app:shelf.service", "--nats", server.url, "--burst")
    with running(tmp_path, *command, cwd=tmp_path) as worker:
        assert await worker.until_exit() == 0, worker.printed


async def test_every_flag_has_an_environment_twin(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path
) -> None:
    greeting, napping = await jobs.greet.create("ada"), await jobs.nap.create(0)
    twins = {
        "NATS_URL": server.url,
        "TRELLIS_JOBS_QUEUES": "greet, shrug",
        "TRELLIS_JOBS_CONCURRENCY": "2",
        "TRELLIS_JOBS_BURST": "1",
        "TRELLIS_JOBS_GRACE": "1.5",
        "TRELLIS_JOBS_LOG_FORMAT": "json",
        "TRELLIS_JOBS_LOG_LEVEL": "info",
    }
    with running(tmp_path, "worker", SHOP, env=twins) as worker:
        assert await worker.until_exit() == 0, worker.printed
        assert '"queues":["greet","shrug"]' in worker.printed
    assert (await greeting.get()).state is JobState.COMPLETED
    assert (await napping.get()).state is JobState.PENDING


async def test_a_job_that_outlasts_the_grace_period_goes_back_with_its_try(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path
) -> None:
    ref = await jobs.nap.create(60)
    with running(tmp_path, "worker", SHOP, "--nats", server.url, "--grace", "0.2") as worker:
        await until_state(ref, JobState.ACTIVE)
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0, worker.printed
    job = await ref.get()
    assert (job.state, job.tries) == (JobState.RETRY, 0)


@pytest.mark.parametrize("how", ["swallows cancellation", "blocks in a thread"])
async def test_a_handler_that_will_not_stop_does_not_keep_the_process(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path, how: str
) -> None:
    ref = await jobs.shrug.create(how)
    with running(tmp_path, "worker", SHOP, "--nats", server.url, "--grace", "0.2") as worker:
        await until_state(ref, JobState.ACTIVE)
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0, worker.printed
    assert (await ref.get()).state is JobState.RETRY


async def test_a_worker_stops_although_its_server_is_gone(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path
) -> None:
    ref = await jobs.nap.create(60)
    with running(tmp_path, "worker", SHOP, "--nats", server.url, "--grace", "0.2") as worker:
        await until_state(ref, JobState.ACTIVE)
        server.kill()
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0, worker.printed
        assert "could not put the unfinished jobs back" in worker.printed


async def test_a_quiet_worker_leaves_new_jobs_to_others_until_it_is_told_to_go_on(
    server: EmbeddedServer, jobs: ShopJobs, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with running(tmp_path, "worker", SHOP, "--nats", server.url) as worker:
        await worker.until_prints(STARTED)
        worker.send(signal.SIGTSTP)
        await worker.until_prints("worker is now quiet")
        for_others = await jobs.greet.create("ada")
        with running(tmp_path / "other", "worker", SHOP, "--nats", server.url, "--burst") as other:
            assert await other.until_exit() == 0
            assert for_others.id in other.printed
        afterwards = await jobs.greet.create("grace")
        worker.send(signal.SIGCONT)
        assert await afterwards.wait(timeout=20) == "hello grace"
        await worker.until_prints(afterwards.id)
        assert for_others.id not in worker.printed
        assert worker.printed.index("worker is now running") < worker.printed.index(afterwards.id)


async def test_probes_tell_whether_the_server_is_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(tmp_path, "worker", SHOP, "--nats", server.url, "--health-port", "0") as worker:
        await worker.until_prints("serving health probes")
        [port] = map(int, re.findall(r"health probes on port (\d+)", worker.printed))
        await worker.until_prints("worker started")
        assert (await get(port, "/ready"))[0] == 200
        server.kill()

        async def is_unready() -> bool:
            return (await get(port, "/ready"))[0] == 503

        await until(is_unready, "it is not ready without a server")
        assert (await get(port, "/live"))[0] == 200
        server.restart()

        async def is_ready() -> bool:
            return (await get(port, "/ready"))[0] == 200

        await until(is_ready, "it is ready again")
