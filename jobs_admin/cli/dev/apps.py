"""The apps of a session: each runs in a process, and starts again when its files change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs_admin.cli.dev.app_output import Said, Working, understand
from jobs_admin.cli.dev.app_process import GRACE, AppProcess, Restarted
from jobs_admin.cli.dev.sources import watch
from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobs_admin.cli.dev.state import Board

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
            tasks.append(asyncio.create_task(watch(Path.cwd(), self._start_again)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _start_again(self) -> None:
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
        self._process = Restarted(self._start, self._lament)
        self._last_words = _NO_WORDS

    async def run(self) -> None:
        await self._process.run()

    def start_again(self) -> None:
        self._board.tell(self._name, "files changed: it starts again")
        self._board.stand(self._name, "starts again")
        self._process.start_again()

    async def _start(self) -> AppProcess:
        """Its log lines are JSON, to tell them from what handlers print."""
        self._last_words = _NO_WORDS
        logs = ("--log-format", "json", "--log-level", "info", "--grace", str(GRACE))
        return await AppProcess.start((self._name, *logs), self._environment, self._hear)

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
