"""The apps of a session: each runs in a child process that restarts when files change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs_admin.cli.dev.app_output import AppLine, WorkerStarted, parse_line
from jobs_admin.cli.dev.app_process import GRACE, AppProcess, RestartingProcess
from jobs_admin.cli.dev.sources import watch
from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobs_admin.cli.dev.state import DevState

_NO_OUTPUT: Final = "it printed nothing"
_REMEDY: Final = "it restarts when a file changes"


class AppEnded(JobsError):
    def __init__(self, app: str, how: str, last_line: str) -> None:
        super().__init__(f"{app} {how}: {last_line}")
        self.app = app
        self.how = how


class Apps:
    def __init__(
        self, names: Sequence[str], state: DevState, environment: Mapping[str, str], *, reload: bool
    ) -> None:
        self._apps = [_App(name, state, environment, reload=reload) for name in names]
        self._reload = reload

    async def run(self) -> None:
        """Runs until it is cancelled, or an app exits and reloading is off."""
        tasks = [asyncio.create_task(app.run()) for app in self._apps]
        if self._reload:
            tasks.append(asyncio.create_task(watch(Path.cwd(), self._restart)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _restart(self) -> None:
        for app in self._apps:
            app.restart()


class _App:
    def __init__(
        self, name: str, state: DevState, environment: Mapping[str, str], *, reload: bool
    ) -> None:
        self._name = name
        self._state = state
        self._environment = environment
        self._reload = reload
        self._process = RestartingProcess(self._start, self._report_exit)
        self._last_line = _NO_OUTPUT

    async def run(self) -> None:
        await self._process.run()

    def restart(self) -> None:
        self._state.add_notice(self._name, "files changed, restarting")
        self._state.set_app_status(self._name, "is restarting")
        self._process.restart()

    async def _start(self) -> AppProcess:
        """The worker logs JSON, to distinguish its log lines from what handlers print."""
        self._last_line = _NO_OUTPUT
        logs = ("--log-format", "json", "--log-level", "info", "--grace", str(GRACE))
        return await AppProcess.start((self._name, *logs), self._environment, self._on_line)

    def _report_exit(self, how: str) -> None:
        if not self._reload:
            raise AppEnded(self._name, how, self._last_line)
        status = f"{how}; {_REMEDY}: {self._last_line}"
        self._state.add_notice(self._name, f"{how}; {_REMEDY}", is_error=True)
        self._state.set_app_status(self._name, status, is_error=True)

    def _on_line(self, line: str) -> None:
        match parse_line(line):
            case WorkerStarted(service, queues):
                status = f"runs jobs of {', '.join(queues)}"
                self._state.add_queues(service, queues)
                self._state.add_notice(self._name, status)
                self._state.set_app_status(self._name, status)
            case AppLine(text, is_error):
                self._last_line = text.removeprefix("error: ")
                self._state.add_notice(self._name, text, is_error=is_error)
            case None:
                pass
