"""Child processes that are ended with all their descendants, whatever happens."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks.peers.usage import family
from trellis_jobs.child_process import ending_with_parent

LOG_TAIL_LINES: Final = 8


class Failed(Exception):
    """This measurement has no figure; the others are not touched."""


@contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    talks: bool = False,
) -> Generator[subprocess.Popen[str]]:
    """One that talks reads stdin and answers on stdout; all else that it says goes to `log`."""
    program = shutil.which(command[0])
    if program is None:
        raise Failed(f"{command[0]} is not installed")
    with log.open("ab") as written:
        process = subprocess.Popen(
            ending_with_parent([program, *command[1:]]),
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else written,
            stderr=written,
            env=environment,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """By force and at once: what it holds is thrown away. Parents first, or they start others."""
    with ExitStack() as handles:
        members = family([process.pid]) if process.poll() is None else []
        held = [handle for pid in members if (handle := _handle_of(pid, handles)) is not None]
        for handle in held:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        for handle in held:
            select.select([handle], [], [])


def _handle_of(pid: int, handles: ExitStack) -> int | None:
    """Readable once that process has ended. None if it has ended already."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    handles.callback(os.close, handle)
    return handle


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
