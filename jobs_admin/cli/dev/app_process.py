"""A worker in a process of its own, started again when its files change; how it ends."""

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

    Hear = Callable[[str], None]
    Start = Callable[[], Awaitable["AppProcess"]]

# Whoever waits for a restart waits for this; longer jobs are handed back and start again.
GRACE: Final = 1.0
# A worker hands back within five seconds more; one that does not is stuck.
_PATIENCE: Final = 7.0
# A child of its own may have its output still open.
_LAST_WORDS: Final = 1.0
_CHUNK: Final = 65_536
_LONGEST_LINE: Final = 1_000_000


# The parent starts the worker again; the worker itself must not do so too.
_NO_RELOAD: Final = {"TRELLIS_JOBS_RELOAD": "0"}


class AppProcess:
    def __init__(self, process: asyncio.subprocess.Process, listening: asyncio.Task[None]) -> None:
        self._process = process
        self._listening = listening

    @classmethod
    async def start(
        cls, arguments: Sequence[str], environment: Mapping[str, str], hear: Hear | None = None
    ) -> AppProcess:
        """`trellis-jobs worker` with these arguments. Without `hear` it prints where we do."""
        command = (sys.executable, "-m", "jobs_admin.cli", "worker", *arguments)
        process = await asyncio.create_subprocess_exec(
            *ending_with_parent(command),
            env={**os.environ, **environment, **_NO_RELOAD, "PYTHONUNBUFFERED": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=None if hear is None else asyncio.subprocess.PIPE,
            stderr=None if hear is None else asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the parent, which stops its apps first
        )
        return cls(process, asyncio.create_task(_listen(process.stdout, hear)))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> str:
        """Until it ends by itself; how it did."""
        code = await self._process.wait()
        await self._hear_the_rest()
        return f"ended with code {code}" if code >= 0 else f"was ended by {_signal_name(-code)}"

    async def stop(self) -> None:
        """Let it hand back what it works on; its pipe is not waited for if others hold it."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._hear_the_rest()

    async def _hear_the_rest(self) -> None:
        await asyncio.wait({self._listening}, timeout=_LAST_WORDS)
        self._listening.cancel()


class Restarted:
    """One process that is started again after each change, and waits for one when it has ended.

    `ended` is told how it ended, unless it was stopped for a change.
    """

    def __init__(self, start: Start, ended: Callable[[str], None]) -> None:
        self._start = start
        self._ended = ended
        self._changed = asyncio.Event()

    def start_again(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            how = await self._run_once()
            if how is not None:
                self._ended(how)
            await self._changed.wait()

    async def _run_once(self) -> str | None:
        """How it ended by itself; None when it was stopped because its files changed."""
        process = await self._start()
        ended = asyncio.create_task(process.wait())
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else None
        finally:
            changed.cancel()
            ended.cancel()
            await process.stop()


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


async def _listen(stream: asyncio.StreamReader | None, hear: Hear | None) -> None:
    if stream is None or hear is None:
        return
    async for line in _lines(stream):
        hear(line.decode(errors="replace").rstrip())


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    while chunk := await stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > _LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest
