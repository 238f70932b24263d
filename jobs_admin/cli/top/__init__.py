"""`trellis-jobs top`: job types, live, on one screen."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.live import Live

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.render.output import JsonOutput, console, print_json
from jobs_admin.cli.run import run
from jobs_admin.cli.top.frame import frame
from jobs_admin.cli.top.snapshot import Sight, see
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost
from trellis_jobs.worker.signals import handle_signals

_EVERY: Final = 1.0
_PATIENCE: Final = 3.0
_KEYS_AT_ONCE: Final = 64


def top(output: JsonOutput, reach: ConnectionOptions) -> None:
    """Job types, live: what waits, runs, fails, and who works on it.

    Refreshed once a second until q or Ctrl-C. In a pipe, and with --json, one look.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    run(_top(reach, output))


async def _top(reach: ConnectionOptions, output: JsonOutput) -> None:
    shown = console()
    async with reach.connection() as connection:
        sight = await see(connection)
        heading = (
            f"trellis-jobs top   {connection.address}   nats-server {connection.server_version}"
        )
        if output.json:
            print_json(sight.to_json())
        elif shown.is_terminal:
            await _keep_showing(shown, connection, sight, heading)
        else:
            shown.print(frame(sight, heading, shown))


async def _keep_showing(shown: Console, connection: Connection, sight: Sight, heading: str) -> None:
    enough = asyncio.Event()
    heading = f"{heading}   q ends"
    with (
        handle_signals({signal.SIGTERM: enough.set, signal.SIGINT: enough.set}),
        _pressed(enough.set),
        Live(console=shown, screen=True, auto_refresh=False) as live,
    ):
        while not enough.is_set():
            live.update(frame(sight, heading, shown), refresh=True)
            try:
                async with asyncio.timeout(_EVERY):
                    await enough.wait()
            except TimeoutError:
                sight = await _see_again(connection, sight)


async def _see_again(connection: Connection, last: Sight) -> Sight:
    """What was seen last stays while nothing answers."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await see(connection)
    except (JobsError, ConnectionLost, TimeoutError) as error:
        return replace(last, health=None, trouble=f"no answer from the server {error}".strip())


@contextmanager
def _pressed(end: Callable[[], None]) -> Iterator[None]:
    """Keys are read one by one, and not shown."""
    if not sys.stdin.isatty():
        yield
        return
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)

    def read() -> None:
        pressed = os.read(keyboard, _KEYS_AT_ONCE)
        if not pressed or b"q" in pressed.lower():
            end()

    loop.add_reader(keyboard, read)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
