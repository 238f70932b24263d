"""`trellis-jobs top`: a live view of all job types."""

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
from jobs_admin.cli.top.snapshot import REFRESH_TIMEOUT, TopSnapshot, take_snapshot
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost
from trellis_jobs.worker.signals import handle_signals

_REFRESH_INTERVAL: Final = 1.0
_TIMEOUT: Final = 3.0
_READ_SIZE: Final = 64


def top(output: JsonOutput, options: ConnectionOptions) -> None:
    """Show all job types live: waiting, active and failing jobs, and workers.

    Refreshes once per second until q or Ctrl-C. In a pipe or with --json, prints one snapshot.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    run(_top(options, output))


async def _top(options: ConnectionOptions, output: JsonOutput) -> None:
    screen = console()
    async with options.connection() as connection:
        snapshot = await take_snapshot(connection)
        heading = (
            f"trellis-jobs top   {connection.address}   nats-server {connection.server_version}"
        )
        if output.json:
            print_json(snapshot.to_json())
        elif screen.is_terminal:
            await _show_live(screen, connection, snapshot, heading)
        else:
            screen.print(frame(snapshot, heading, screen))


async def _show_live(
    screen: Console, connection: Connection, snapshot: TopSnapshot, heading: str
) -> None:
    stop = asyncio.Event()
    heading = f"{heading}   q quits"
    with (
        handle_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set}),
        _on_quit_key(stop.set),
        Live(console=screen, screen=True, auto_refresh=False) as live,
    ):
        while not stop.is_set():
            live.update(frame(snapshot, heading, screen), refresh=True)
            try:
                async with asyncio.timeout(_REFRESH_INTERVAL):
                    await stop.wait()
            except TimeoutError:
                snapshot = await _refresh(connection, snapshot)


async def _refresh(connection: Connection, last: TopSnapshot) -> TopSnapshot:
    """Keep the last snapshot while the server does not answer."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            return await take_snapshot(connection, admin_timeout=REFRESH_TIMEOUT)
    except (JobsError, ConnectionLost, TimeoutError) as error:
        return replace(last, health=None, trouble=f"no answer from the server {error}".strip())


@contextmanager
def _on_quit_key(end: Callable[[], None]) -> Iterator[None]:
    """Read keys one by one and without echo."""
    if not sys.stdin.isatty():
        yield
        return
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)

    def read() -> None:
        keys = os.read(keyboard, _READ_SIZE)
        if not keys or b"q" in keys.lower():
            end()

    loop.add_reader(keyboard, read)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
