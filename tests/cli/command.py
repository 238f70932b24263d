"""The installed command in a separate process, and what it says while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.facts import until
from tests.support.fork_server import CLI, ROOT, ForkedProcess, fork

COMMAND: Final = str(Path(sys.executable).with_name("trellis-jobs"))
OURS: Final = ("NATS_", "TRELLIS_JOBS_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what the command would read from it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, **(more or {})}


@dataclass
class Command:
    process: subprocess.Popen[bytes] | ForkedProcess
    output: Path

    @property
    def printed(self) -> str:
        return self.output.read_text(errors="replace")

    async def until_prints(self, words: str) -> None:
        def says() -> bool:
            assert words in self.printed or self.process.poll() is None, self.printed
            return words in self.printed

        await until(says, f"the command says {words!r}")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def until_exit(self) -> int:
        await until(lambda: self.process.poll() is not None, f"it exits; so far: {self.printed}")
        return self.process.wait()


@contextmanager
def running(
    folder: Path,
    *arguments: str,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    under: tuple[str, ...] = (),
) -> Iterator[Command]:
    """`under`: a program that is given the command to run."""
    printed = folder / "said"
    with printed.open("wb") as output:
        process = (
            subprocess.Popen(
                (*under, COMMAND, *arguments),
                cwd=cwd,
                env=environment(env),
                stdout=output,
                stderr=output,
            )
            if under
            else fork(CLI, *arguments, stdout=output, cwd=cwd, env=environment(env))
        )
    try:
        yield Command(process, printed)
    finally:
        process.kill()
        process.wait()
