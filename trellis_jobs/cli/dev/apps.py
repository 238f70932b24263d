"""The apps of a session: each runs in a process, and starts again when its files change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trellis_jobs.cli.dev.app_process import AppProcess
from trellis_jobs.cli.dev.app_words import Said, Working, understand
from trellis_jobs.cli.dev.sources import snapshot, until_changed
from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trellis_jobs.cli.dev.board import Board

_NO_WORDS: Final = "without a word"
_REMEDY: Final = "the next save of a file tries again"


class AppEnded(JobsError):
    def __init__(self, app: str, how: str, words: str) -> None:
        super().__init__(f"{app} {how}: {words}")
        self.app = app
        self.how = how


class Apps:
    def __init__(
        self, names: Sequence[str], board: Board, environment: Mapping[str, str], *, reload: bool
    ) -> None:
        self._apps = [_App(name, board, environment, reload=reload) for name in names]
        self._reload = reload

    async def run(self) -> None:
        """Until it is cancelled, or an app ends that nothing would start again."""
        tasks = [asyncio.create_task(app.run()) for app in self._apps]
        if self._reload:
            tasks.append(asyncio.create_task(self._watch(Path.cwd())))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _watch(self, folder: Path) -> None:
        seen = await asyncio.to_thread(snapshot, folder)
        while True:
            seen = await until_changed(folder, seen)
            for app in self._apps:
                app.start_again()


class _App:
    def __init__(
        self, name: str, board: Board, environment: Mapping[str, str], *, reload: bool
    ) -> None:
        self._name = name
        self._board = board
        self._environment = environment
        self._reload = reload
        self._changed = asyncio.Event()
        self._last_words = _NO_WORDS

    async def run(self) -> None:
        while True:
            self._changed.clear()
            self._last_words = _NO_WORDS
            how = await self._run_once()
            if how is not None:
                self._lament(how)
            await self._changed.wait()

    def start_again(self) -> None:
        self._board.tell(self._name, "files changed: it starts again")
        self._board.stand(self._name, "starts again")
        self._changed.set()

    async def _run_once(self) -> str | None:
        """How it ended by itself; None when it was stopped because its files changed."""
        process = await AppProcess.start(self._name, self._environment, self._hear)
        ended = asyncio.create_task(process.wait())
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else None
        finally:
            changed.cancel()
            ended.cancel()
            await process.stop()

    def _lament(self, how: str) -> None:
        if not self._reload:
            raise AppEnded(self._name, how, self._last_words)
        self._board.tell(self._name, f"{how}; {_REMEDY}", is_alarm=True)
        self._board.stand(self._name, f"{how}; {_REMEDY}: {self._last_words}", is_alarm=True)

    def _hear(self, line: str) -> None:
        match understand(line):
            case Working(service, queues):
                works = f"works on {', '.join(queues)}"
                self._board.expect(service, queues)
                self._board.tell(self._name, works)
                self._board.stand(self._name, works)
            case Said(words, is_alarm):
                self._last_words = words.removeprefix("error: ")
                self._board.tell(self._name, words, is_alarm=is_alarm)
            case None:
                pass
