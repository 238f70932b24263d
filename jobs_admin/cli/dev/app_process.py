"""A worker in a child process that is restarted when files change."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trellis_jobs.child_process import ending_with_parent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    OnLine = Callable[[str], None]
    Start = Callable[[], Awaitable["AppProcess"]]

# A developer waits for the restart: jobs that take longer are put back and run again.
GRACE: Final = 1.0
# A worker puts its jobs back within five more seconds, unless it is stuck.
_STOP_TIMEOUT: Final = 7.0
# A grandchild process may keep the pipe open.
_OUTPUT_TIMEOUT: Final = 1.0
_CHUNK: Final = 65_536
_MAX_LINE: Final = 1_000_000


# The parent restarts the worker; the worker must not restart itself too.
_NO_RELOAD: Final = {"TRELLIS_JOBS_RELOAD": "0"}


class AppProcess:
    def __init__(self, process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
        self._process = process
        self._reading = reading

    @classmethod
    async def start(
        cls, arguments: Sequence[str], environment: Mapping[str, str], on_line: OnLine | None = None
    ) -> AppProcess:
        """Run `trellis-jobs worker` with these arguments. Without `on_line` it inherits stdout."""
        command = (sys.executable, "-m", "jobs_admin.cli", "worker", *arguments)
        process = await asyncio.create_subprocess_exec(
            *ending_with_parent(command),
            env={**os.environ, **environment, **_NO_RELOAD, "PYTHONUNBUFFERED": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=None if on_line is None else asyncio.subprocess.PIPE,
            stderr=None if on_line is None else asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C goes to the parent, which stops its apps first
        )
        return cls(process, asyncio.create_task(_read_lines(process.stdout, on_line)))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> str:
        """Wait until it exits by itself, and return how it exited."""
        code = await self._process.wait()
        await self._read_rest()
        return f"exited with code {code}" if code >= 0 else f"was killed by {_signal_name(-code)}"

    async def stop(self) -> None:
        """Let it put back its jobs. Does not wait for its pipe for long: others may hold it."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._read_rest()

    async def _read_rest(self) -> None:
        await asyncio.wait({self._reading}, timeout=_OUTPUT_TIMEOUT)
        self._reading.cancel()


class RestartingProcess:
    """A process that is restarted after each change; after it has exited, it waits for one.

    `on_exit` is called with how it exited, unless it was stopped because of a change.
    """

    def __init__(self, start: Start, on_exit: Callable[[str], None]) -> None:
        self._start = start
        self._on_exit = on_exit
        self._changed = asyncio.Event()

    def restart(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            how = await self._run_once()
            if how is not None:
                self._on_exit(how)
            await self._changed.wait()

    async def _run_once(self) -> str | None:
        """How it exited. Returns None when it was stopped because files changed."""
        process = await self._start()
        exited = asyncio.create_task(process.wait())
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({exited, changed}, return_when=asyncio.FIRST_COMPLETED)
            return exited.result() if exited.done() else None
        finally:
            changed.cancel()
            exited.cancel()
            await process.stop()


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


async def _read_lines(stream: asyncio.StreamReader | None, on_line: OnLine | None) -> None:
    if stream is None or on_line is None:
        return
    async for line in _lines(stream):
        on_line(line.decode(errors="replace").rstrip())


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    while chunk := await stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > _MAX_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest
