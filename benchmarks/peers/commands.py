"""How each tool's worker is started: by its own command, as its users would.

The numbers of threads and pools are those that drained fastest among what was tried.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.peers.trial import Broker, Trial

ADAPTERS: Final = "benchmarks.peers.adapters"
MAX_RQ_PROCESSES: Final = 20

Command = list[str]
Commands = Callable[[Trial, Path], list[Command]]


def ours(trial: Trial, programs: Path) -> list[Command]:
    command = [str(programs / "trellis-jobs"), "worker", "benchmarks.peers.ours:service"]
    server = ["--nats", trial.addresses[Broker.NATS], "--log-level", "warning"]
    return [command + server] * trial.processes


def arq(trial: Trial, programs: Path) -> list[Command]:
    module = f"{ADAPTERS}.arq_queue"
    settings = [f"{module}.WorkerSettings", "--custom-log-dict", f"{module}.LOGS"]
    return [[str(programs / "arq"), *settings]] * trial.processes


def saq(trial: Trial, programs: Path) -> list[Command]:
    settings = [f"{ADAPTERS}.saq_queue.settings", "--workers", str(trial.processes)]
    return [[str(programs / "saq"), *settings]]


def streaq(trial: Trial, programs: Path) -> list[Command]:
    settings = ["run", f"{ADAPTERS}.streaq_queue:worker", "--workers", str(trial.processes)]
    return [[str(programs / "streaq"), *settings]]


def taskiq(trial: Trial, programs: Path) -> list[Command]:
    size = ["--workers", str(trial.processes), "--max-async-tasks", str(trial.concurrency)]
    settings = ["worker", f"{ADAPTERS}.taskiq_queue:broker", "--log-level", "WARNING", *size]
    return [[str(programs / "taskiq"), *settings]]


def procrastinate(trial: Trial, programs: Path) -> list[Command]:
    module = f"{ADAPTERS}.procrastinate_queue"
    return [[str(programs / "python"), "-m", module]] * trial.processes


def dramatiq(trial: Trial, programs: Path) -> list[Command]:
    threads = trial.concurrency if trial.waits else 16
    size = ["--processes", str(trial.processes), "--threads", str(threads)]
    return [[str(programs / "dramatiq"), f"{ADAPTERS}.dramatiq_queue", *size]]


def huey(trial: Trial, programs: Path) -> list[Command]:
    """Several processes have one thread each: it has no other way."""
    threads = trial.concurrency if trial.waits else 2
    kind, size = ("thread", threads) if trial.processes == 1 else ("process", trial.processes)
    settings = [f"{ADAPTERS}.huey_queue.huey", "-k", kind, "-w", str(size), "-q", "-n"]
    return [[str(programs / "python"), str(programs / "huey_consumer"), *settings]]


def rq(trial: Trial, programs: Path) -> list[Command]:
    """For jobs that wait, more processes than anybody else has: it has no other concurrency."""
    processes = min(trial.concurrency, MAX_RQ_PROCESSES) if trial.waits else trial.processes
    worker = ["-w", "rq.worker.SimpleWorker", "-u", trial.addresses[Broker.REDIS]]
    if processes == 1:
        return [[str(programs / "rq"), "worker", *worker, "--logging_level", "WARNING", "default"]]
    pool = ["worker-pool", "-n", str(processes), *worker, "-q", "default"]
    return [[str(programs / "rq"), *pool]]


def celery(trial: Trial, programs: Path) -> list[Command]:
    pool = ["-P", "gevent" if trial.waits else "solo", "-c", str(trial.concurrency)]
    return [
        [*_celery(programs), *pool, "-n", f"worker{number}@%h"] for number in range(trial.processes)
    ]


def celery_prefork(trial: Trial, programs: Path) -> list[Command]:
    return [[*_celery(programs), "-P", "prefork", "-c", str(trial.processes)]]


def _celery(programs: Path) -> Command:
    quiet = ["-l", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    return [str(programs / "celery"), "-A", f"{ADAPTERS}.celery_queue", "worker", *quiet]
