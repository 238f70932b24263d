"""The installed command, run to its end: in a pipe, or on a terminal with typed answers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from tests.cli.command import COMMAND, ROOT, environment

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Ended:
    """On a terminal everything is in `out`."""

    code: int
    out: str
    err: str = ""

    @property
    def json(self) -> Any:
        return orjson.loads(self.out)

    @property
    def plain(self) -> str:
        """Without colours and other ways of drawing."""
        return _ESCAPES.sub("", self.out).replace("\r", "")


def shell(*arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ended:
    ended = subprocess.run(
        (COMMAND, *arguments),
        cwd=ROOT,
        env=environment(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def at_terminal(
    *arguments: str, types: str = "", columns: int = 80, env: Mapping[str, str] | None = None
) -> Ended:
    """`types`: what is typed before the command reads it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        (COMMAND, *arguments),
        cwd=ROOT,
        env=environment({"TERM": "xterm-256color", **(env or {})}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        os.write(ours, types.encode())
        printed = _everything_from(ours)
        return Ended(process.wait(), printed)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _everything_from(terminal: int) -> str:
    printed = b""
    while True:
        try:
            printed += os.read(terminal, 65536)
        except OSError:  # the other side is closed
            return printed.decode(errors="replace")
