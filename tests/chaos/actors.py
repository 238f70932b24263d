"""Processes of a campaign: killed, frozen, told to stop, started again in a new folder."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.chaos.notebook import notes_in
from tests.support.fork_server import ROOT
from trellis_jobs.child_process import ending_with_parent


class Kind(Enum):
    WORKER = "worker"
    PRODUCER = "producer"
    DAEMON = "daemon"


@dataclass
class Actor:
    """One part, played by one process after another.

    `command` has what comes after the interpreter, given the folder of an incarnation. `is_ready`
    tells from that folder whether it has come so far that it must not end by itself.
    """

    kind: Kind
    name: str
    home: Path
    command: Callable[[Path], Sequence[str]]
    is_ready: Callable[[Path], bool]
    fell: list[str] = field(default_factory=list)
    starts: int = 0
    process: subprocess.Popen[bytes] = field(init=False)
    _is_told_to_end: bool = False

    @property
    def folder(self) -> Path:
        return self.home / str(self.starts)

    @property
    def folders(self) -> list[Path]:
        """Of all its incarnations."""
        return [self.home / str(number + 1) for number in range(self.starts)]

    @property
    def notes(self) -> list[list[str]]:
        return [line for folder in self.folders for line in notes_in(folder / "notes")]

    def start(self) -> None:
        self.starts += 1
        self._is_told_to_end = False
        self.folder.mkdir(parents=True)
        argv = ending_with_parent((sys.executable, *self.command(self.folder)))
        with (self.folder / "output").open("wb") as output:
            self.process = subprocess.Popen(argv, cwd=ROOT, stdout=output, stderr=output)

    def keep_up(self) -> None:
        """Starts it again when it ended, and notes that if no fault had ended it."""
        if self.is_running or self._is_told_to_end:
            return
        if self.is_ready(self.folder):
            last = (self.folder / "output").read_text(errors="replace").splitlines()[-3:]
            self.fell.append(f"{self.name} ended with {self.process.returncode}: {last}")
        self.start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    async def end(self) -> None:
        """Tells it to end, as a deploy does. It is not started again."""
        self._is_told_to_end = True
        process = self.process
        process.terminate()
        await asyncio.to_thread(process.wait)

    async def deploy_again(self) -> None:
        process = self.process
        await self.end()
        if self.process is process:  # no other fault was faster
            self.start()

    @property
    def is_up(self) -> bool:
        return self.is_running and self.is_ready(self.folder)

    def jump(self, seconds: float) -> None:
        if self.is_up:
            (self.folder / "clock").write_text(str(seconds))
            self.send(signal.SIGUSR1)

    def limit_files(self, max_bytes: int) -> None:
        """What it may write into one file from now on: 0 is a full disk."""
        if self.is_running:
            _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (max_bytes, hard))


def has_file_ready(folder: Path) -> bool:
    return (folder / "ready").exists()


def says_started(folder: Path) -> bool:
    output = folder / "output"
    return output.exists() and "admin runtime started" in output.read_text(errors="replace")


def worker(name: str, home: Path, url: str) -> Actor:
    def command(folder: Path) -> Sequence[str]:
        return ("-m", "tests.chaos.worker", url, str(folder))

    return Actor(Kind.WORKER, name, home / name, command, has_file_ready)


def producer(name: str, home: Path, url: str, seed: int) -> Actor:
    def command(folder: Path) -> Sequence[str]:
        return ("-m", "tests.chaos.producer", url, str(folder), str(seed))

    return Actor(Kind.PRODUCER, name, home / name, command, has_file_ready)


def daemon(name: str, home: Path, url: str) -> Actor:
    def command(_: Path) -> Sequence[str]:
        serve = ("-m", "jobs_admin.cli", "admin", "serve", "--nats", url)
        often = ("--janitor-interval", "0.5", "--reconcile-interval", "2")
        return (*serve, "--db", str(database(home / name)), *often)

    return Actor(Kind.DAEMON, name, home / name, command, says_started)


def database(home: Path) -> Path:
    return home / "jobs.sqlite"
