"""Commands, run to their end: in a pipe, or on a terminal with typed answers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import orjson

from tests.cli.command import environment
from tests.support.fork_server import CLI, ROOT, fork

# Of a machine that has much else to do.
TIMEOUT: Final = 120.0
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
    ended = run_to_end(*arguments, stdin=stdin, env=environment(env))
    assert "Traceback" not in ended.err, ended.err
    return ended


def run_to_end(*arguments: str, env: Mapping[str, str], stdin: str = "", cwd: Path = ROOT) -> Ended:
    """`env` is the whole environment of the command."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        process = fork(CLI, *arguments, stdin=given, stdout=out, stderr=err, cwd=cwd, env=env)
        code = process.wait(TIMEOUT)
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


def at_terminal(
    *arguments: str, types: str = "", columns: int = 80, env: Mapping[str, str] | None = None
) -> Ended:
    """`types`: what is typed before the command reads it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    of_terminal = environment({"TERM": "xterm-256color", **(env or {})})
    with open(theirs, "r+b", buffering=0) as terminal:
        process = fork(CLI, *arguments, stdin=terminal, stdout=terminal, env=of_terminal)
    try:
        os.write(ours, types.encode())
        printed = _everything_from(ours)
        return Ended(process.wait(TIMEOUT), printed)
    finally:
        os.close(ours)


def _everything_from(terminal: int) -> str:
    printed = b""
    while True:
        try:
            printed += os.read(terminal, 65536)
        except OSError:  # the other side is closed
            return printed.decode(errors="replace")
