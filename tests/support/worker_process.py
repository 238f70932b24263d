"""A real worker in another process, to be killed, stopped and signalled.

Run as a program it works on the lab's queues; each handler run adds a line to a file, and waiting
handlers continue when a second file exists.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.example_service import Report, Task, TaskJobs, TaskWorker
from tests.support.facts import DEADLINE, until
from tests.support.fork_server import ForkedProcess, fork
from tests.support.lab import LAB, lab_worker
from trellis_jobs import ActiveJob, Service, Workers
from trellis_jobs.model import nak_timing
from trellis_jobs.model.nak_timing import BURST_INTERVAL


@dataclass
class WorkerProcess:
    process: ForkedProcess
    folder: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def runs(self) -> list[tuple[str, int]]:
        """(job id, try) of every handler run that began in this process."""
        written = self.folder / "runs"
        if not written.exists():
            return []
        lines = (line.split() for line in written.read_text().splitlines())
        return [(job_id, int(tries)) for job_id, tries in lines]

    @property
    def cancelled(self) -> list[str]:
        """The jobs whose handlers were cancelled."""
        written = self.folder / "cancelled"
        return written.read_text().split() if written.exists() else []

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def until_ready(self) -> None:
        await until((self.folder / "ready").exists, "the worker is ready")

    async def until_running(self, job_id: str) -> None:
        await until(lambda: job_id in [ran for ran, _ in self.runs], f"{job_id} runs")

    async def until_exit(self) -> int:
        await until(lambda: self.process.poll() is not None, "the worker exits")
        return self.process.wait()

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()


@contextmanager
def worker_process(
    url: str,
    folder: Path,
    *queues: str,
    concurrency: int | None = None,
    grace: float = 5.0,
    dead_after: float = 25.0,
    burst_interval: float = BURST_INTERVAL,
) -> Iterator[WorkerProcess]:
    folder.mkdir(parents=True, exist_ok=True)
    arguments = map(str, (url, folder, concurrency or 0, grace, dead_after, burst_interval))
    with (folder / "output").open("wb") as output:
        process = fork("tests.support.worker_process", *arguments, *queues, stdout=output)
    try:
        yield WorkerProcess(process, folder)
    finally:
        process.kill()
        process.wait()


async def _main(
    url: str, folder: Path, concurrency: int, service: Service[TaskJobs], queues: list[str]
) -> None:
    made = lab_worker()

    async def record(active: ActiveJob[Task]) -> Report:
        with (folder / "runs").open("a") as runs:
            runs.write(f"{active.id} {active.tries}\n")
        try:
            return await made.handle(active)
        except asyncio.CancelledError:
            with (folder / "cancelled").open("a") as cancelled:
                cancelled.write(f"{active.id}\n")
            raise

    for name in queues:
        getattr(service.jobs, name).handle(record)
    workers = Workers(concurrency=concurrency or None)
    async with service.connect(url, workers=workers, connect_timeout=DEADLINE):
        ending = asyncio.create_task(service.wait())
        await asyncio.sleep(0)  # now it listens to signals
        (folder / "ready").touch()
        watching = asyncio.create_task(_watch(folder / "go", made))
        await ending
        watching.cancel()


async def _watch(go: Path, made: TaskWorker) -> None:
    await until(go.exists, "the test lets waiting handlers go on", deadline=3600)
    made.go.set()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO)
    _, url, folder, concurrency, grace, dead_after, burst_interval, *queues = sys.argv
    setattr(nak_timing, "BURST_INTERVAL", float(burst_interval))  # noqa: B010 - it is Final
    lab = Service(LAB, grace=float(grace), dead_after=float(dead_after))
    asyncio.run(_main(url, Path(folder), int(concurrency), lab, queues or ["work"]))
