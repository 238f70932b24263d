"""The command on a separate terminal, and everything it draws there."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

from tests.cli.command import environment
from tests.support.facts import DEADLINE, until
from tests.support.fork_server import CLI, ROOT, ForkedProcess, fork

_FRAMES: Final = 40_000
_HOME: Final = "\x1b[H"
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Everything it was sent, collected by a thread."""

    def __init__(self, master: int) -> None:
        self.text = ""
        self._master = master
        self._collecting = Thread(target=self._collect, daemon=True)
        self._collecting.start()

    @property
    def plain_text(self) -> str:
        """Only the last frames: a command that redraws its screen sends a lot."""
        frames = self.text[-_FRAMES:].replace(_HOME, "\n")
        return _ESCAPES.sub("", frames).replace("\r", "")

    async def until_closed(self) -> None:
        """By all who had it; then the last thing they drew is here."""
        await until(lambda: not self._collecting.is_alive(), "the command draws no more")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        """Not while the thread reads: the next file to be opened would have the same number."""
        self._collecting.join(DEADLINE)
        os.close(self._master)

    def _collect(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while True:
            try:
                self.text += decoder.decode(os.read(self._master, 65536))
            except OSError:  # the other side is closed
                return


@contextmanager
def on_a_terminal(
    *arguments: str, columns: int = 120, cwd: Path = ROOT
) -> Iterator[tuple[ForkedProcess, Terminal]]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = environment({"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""})
    with open(slave, "r+b", buffering=0) as end:
        process = fork(CLI, *arguments, stdin=end, stdout=end, cwd=cwd, env=env)
    terminal = Terminal(master)
    try:
        yield process, terminal
    finally:
        process.kill()
        process.wait()
        terminal.close()
