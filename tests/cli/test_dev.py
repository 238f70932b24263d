"""`trellis-jobs dev`, run for real: with and without a terminal, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tests.cli.command import COMMAND, environment, running
from tests.support.facts import until
from trellis_jobs import Service
from trellis_jobs.demo import DemoJobs, Email
from trellis_jobs.embedded import EmbeddedServer

ALTERNATE_SCREEN = "\x1b[?1049h"
ORDINARY_SCREEN = "\x1b[?1049l"
CURSOR = "\x1b[?25h"
FAST = ("--rate", "20")


async def test_without_a_terminal_it_prints_events_and_ends_with_0(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        for words in ("created", "started", "progress", "retry", "completed", "expired"):
            await dev.until_says(words)
        dev.send(signal.SIGINT)
        assert await dev.until_exit() == 0
        assert "\x1b" not in dev.said
        assert "Traceback" not in dev.said
        assert "stopped after" in dev.said.splitlines()[-1]
        assert dev.said.startswith("trellis-jobs dev   nats://127.0.0.1:")


async def test_its_jobs_end_in_every_way_a_job_can(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        for end in ("completed", "failed", "dead", "cancelled", "expired"):
            await dev.until_says(f"{end} ")


async def test_colour_is_there_for_who_asks(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST, env={"FORCE_COLOR": "1", "TERM": "xterm"}) as dev:
        await dev.until_says("\x1b[32mcompleted")


async def test_jobs_that_run_are_handed_back_at_the_end(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        await dev.until_says("reading the orders")
        dev.send(signal.SIGINT)
        assert await dev.until_exit() == 0
        summary = dev.said.splitlines()[-1]
        assert " retry" in summary
        assert " active" not in summary
        assert "shutdown: the worker shut down before the job was done" in dev.said


async def test_a_server_of_somebody_else_is_used_and_left_running(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(tmp_path, "dev", *FAST, env={"NATS_URL": server.url}) as dev:
        await dev.until_says("completed")
        dev.send(signal.SIGTERM)
        assert await dev.until_exit() == 0
        assert server.url in dev.said
    async with Service(DemoJobs).connect(server.url, workers=False) as demo:
        await demo.jobs.send_email.create(Email(to="ada@example.com", subject="still here"))


async def test_jobs_of_before_are_known_when_the_data_are_kept(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with running(tmp_path, "dev", *FAST, *data) as first:
        await first.until_says("completed")
        first.send(signal.SIGINT)
        assert await first.until_exit() == 0
        before = _jobs_in_all(first.said)
    with running(tmp_path, "dev", *FAST, *data) as second:
        await second.until_says("completed")
        second.send(signal.SIGINT)
        assert await second.until_exit() == 0
        assert _jobs_in_all(second.said) > before


async def test_nothing_is_left_when_it_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        await dev.until_says("completed")
        children = _children(dev.process.pid)
        assert children
        dev.send(signal.SIGKILL)
        await until(lambda: not any(map(_is_alive, children)), "its server ends")


async def test_data_of_its_own_and_a_server_of_somebody_else_exclude_each_other(
    tmp_path: Path,
) -> None:
    with running(tmp_path, "dev", "--data", str(tmp_path), "--nats", "nats://nowhere") as dev:
        assert await dev.until_exit() == 2
        assert "Traceback" not in dev.said


async def test_a_server_that_does_not_answer_is_said_in_one_line(tmp_path: Path) -> None:
    with running(tmp_path, "dev", "--nats", "nats://127.0.0.1:1") as dev:
        assert await dev.until_exit() == 4
        assert "error: no NATS server answers" in dev.said
        assert "Traceback" not in dev.said


async def test_on_a_terminal_it_shows_a_screen_and_gives_the_terminal_back() -> None:
    with _on_a_terminal("dev", *FAST) as (dev, screen):
        shown = (ALTERNATE_SCREEN, "pending", "nightly-report", "completed", "Ctrl-C stops")
        await until(lambda: all(words in screen.text for words in shown), "the screen is there")
        dev.send_signal(signal.SIGINT)
        await until(lambda: dev.poll() is not None, "it exits")
        assert dev.returncode == 0
        await until(lambda: "stopped after" in screen.text, "the summary is there")
        ending = screen.text[screen.text.rindex(ORDINARY_SCREEN) :]
        assert CURSOR in screen.text[screen.text.rindex("Ctrl-C stops") :]
        assert "stopped after" in ending
        assert "Traceback" not in screen.text


class _Screen:
    """Everything a terminal was sent, collected by a thread."""

    def __init__(self, master: int) -> None:
        self.text = ""
        self._master = master
        Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        while True:
            try:
                self.text += os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # the other side is closed
                return


@contextmanager
def _on_a_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], _Screen]]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        (COMMAND, *arguments),
        env=environment({"TERM": "xterm-256color"}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        yield process, _Screen(master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _jobs_in_all(said: str) -> int:
    found = re.search(r"stopped after (\d+) jobs", said)
    assert found, said
    return int(found[1])


def _children(pid: int) -> list[int]:
    """Linux lists them under the thread that made them."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in listed for child in children.read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
