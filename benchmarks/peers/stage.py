"""Where one measurement happens: fresh servers, who enqueues, and workers, all ended afterwards."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.peers import servers
from benchmarks.peers.contestants import Contestant
from benchmarks.peers.moments import Moments
from benchmarks.peers.orders import Done, Order
from benchmarks.peers.processes import Failed, running, tail
from benchmarks.peers.trial import Broker, Trial
from benchmarks.peers.usage import CpuSeconds, cpu_seconds, largest_megabytes

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENTS: Final = ROOT / ".peers"
OVER_WITHIN: Final = 120.0
STARTS: Final[dict[Broker, servers.Start]] = {
    Broker.REDIS: servers.redis,
    Broker.RABBITMQ: servers.rabbitmq,
    Broker.POSTGRES: servers.postgres,
    Broker.NATS: servers.nats,
}


class Stage:
    def __init__(self, contestant: Contestant, trial: Trial, pids: list[int], log: Path) -> None:
        self.trial = trial
        self.moments = Moments(Path(trial.moments), trial.jobs)
        self._contestant = contestant
        self._servers = pids
        self._log = log
        self._workers: list[subprocess.Popen[str]] = []
        self._producer: subprocess.Popen[str] | None = None
        self._children = ExitStack()

    def close(self) -> None:
        self._children.close()

    def start_producer(self) -> None:
        command = [str(programs_of(self._contestant) / "python"), "-m", "benchmarks.peers.producer"]
        self._producer = self._start([*command, self._contestant.adapter], talks=True)

    def start_workers(self) -> None:
        commands = self._contestant.commands(self.trial, programs_of(self._contestant))
        self._workers = [self._start(command) for command in commands]

    def order(self, order: Order) -> Done:
        self.give(order)
        return self.answer()

    def give(self, order: Order) -> None:
        assert self._producer is not None
        assert self._producer.stdin is not None
        self._producer.stdin.write(f"{order}\n")
        self._producer.stdin.flush()

    def answer(self) -> Done:
        assert self._producer is not None
        assert self._producer.stdout is not None
        ready, _, _ = select.select([self._producer.stdout], [], [], OVER_WITHIN)
        if not ready or not (line := self._producer.stdout.readline()):
            raise Failed(f"the producer does not answer; the log ends with:\n{tail(self._log)}")
        return Done(**json.loads(line))

    def until(self, is_so: Callable[[], bool], pause: float) -> None:
        deadline = time.monotonic() + OVER_WITHIN
        while not is_so():
            if any(worker.poll() is not None for worker in self._workers):
                raise Failed(f"a worker ended; the log ends with:\n{tail(self._log)}")
            if time.monotonic() > deadline:
                raise Failed(f"not over after {OVER_WITHIN:g} s; the log: {tail(self._log)}")
            time.sleep(pause)

    def cpu(self) -> CpuSeconds:
        return cpu_seconds(self._worker_pids, self._servers)

    def worker_megabytes(self) -> float:
        return largest_megabytes(self._worker_pids)

    @property
    def _worker_pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def _start(self, command: list[str], *, talks: bool = False) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            **self.trial.to_environment(),
            "PYTHONPATH": str(ROOT),
        }
        child = running(command, log=self._log, environment=environment, talks=talks)
        return self._children.enter_context(child)


@contextmanager
def staged(
    contestant: Contestant, trial_at: Callable[[str, dict[Broker, str]], Trial]
) -> Generator[Stage]:
    """`trial_at` is given the file of moments and the addresses of the servers."""
    with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        folder.chmod(0o711)  # PostgreSQL's user has to get to its own folder
        with ExitStack() as started:
            running_servers = {
                broker: started.enter_context(STARTS[broker](_made(folder / broker)))
                for broker in contestant.brokers
            }
            addresses = {broker: server.address for broker, server in running_servers.items()}
            trial = trial_at(str(folder / "moments"), addresses)
            Moments.create(Path(trial.moments), trial.jobs)
            pids = [server.pid for server in running_servers.values()]
            stage = Stage(contestant, trial, pids, folder / "log")
            started.callback(stage.close)
            yield stage


def programs_of(contestant: Contestant) -> Path:
    if contestant.environment is None:
        return Path(sys.executable).parent
    return ENVIRONMENTS / contestant.environment / "bin"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
