"""The command on a terminal of its own, and everything it draws there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

from tests.cli.command import COMMAND, ROOT, environment

_FRAMES: Final = 40_000
_HOME: Final = "\x1b[H"
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Everything it was sent, collected by a thread."""

    def __init__(self, master: int) -> None:
        self.text = ""
        self._master = master
        Thread(target=self._collect, daemon=True).start()

    @property
    def plain_text(self) -> str:
        """Of the last frames: whoever draws a screen again and again sends a lot."""
        frames = self.text[-_FRAMES:].replace(_HOME, "\n")
        return _ESCAPES.sub("", frames).replace("\r", "")

    def _collect(self) -> None:
        while True:
            try:
                self.text += os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # the other side is closed
                return


@contextmanager
def on_a_terminal(
    *arguments: str, columns: int = 120, cwd: Path = ROOT
) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        (COMMAND, *arguments),
        cwd=cwd,
        env=environment({"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        yield process, Terminal(master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
