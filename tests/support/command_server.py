"""Forks a process for each command that tests run to its end.

All modules are loaded before the fork: to import them takes half a second of CPU time, more than
most commands run. `python -m tests.support.command_server FD` serves a socket that it inherited.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

_NUMBER: Final = struct.Struct("i")
_MAX_REQUEST: Final = 4 * 1024 * 1024
_PACKAGES: Final = ("trellis_jobs", "jobs_admin")


class ForkedCommand:
    """A command in its own process. Its exit code comes through a pipe, as its parent is gone."""

    def __init__(self, result: int) -> None:
        self._result = result
        self.pid = self._read()

    def wait(self, timeout: float) -> int:
        """Its exit code. Kills the command if it runs for longer than the timeout."""
        ended, _, _ = select.select([self._result], [], [], timeout)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
        code = self._read()
        os.close(self._result)
        assert ended, f"the command still ran after {timeout:g} s"
        return code

    def _read(self) -> int:
        (number,) = _NUMBER.unpack(os.read(self._result, _NUMBER.size))
        return int(number)


class CommandServer:
    """Starts commands, until its owner exits."""

    def __init__(self, cwd: Path, env: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST)
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, "-m", __name__, str(theirs.fileno())),
                cwd=cwd,
                env=env,
                pass_fds=(theirs.fileno(),),
            )

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int],
    ) -> ForkedCommand:
        """`streams` are the file descriptors of its stdin, stdout and stderr."""
        result, theirs = os.pipe()
        request = json.dumps([list(arguments), str(cwd), dict(env)]).encode()
        socket.send_fds(self._socket, [request], [*streams, theirs])
        os.close(theirs)
        return ForkedCommand(result)


def serve(requests: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the parents of commands
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _MAX_REQUEST, 4)
        if not data:
            return
        if os.fork() == 0:
            requests.close()
            _run_and_report(data, descriptors)
        for each in descriptors:
            os.close(each)


def _run_and_report(data: bytes, descriptors: list[int]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, result = descriptors
    command = os.fork()
    if command == 0:
        os.close(result)
        arguments, cwd, env = json.loads(data)
        _run(arguments, cwd, env, streams)
    for each in streams:
        os.close(each)
    os.write(result, _NUMBER.pack(command))
    _, status = os.waitpid(command, 0)
    os.write(result, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _run(arguments: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> NoReturn:
    """As the installed script does it."""
    from jobs_admin.cli.app import main  # noqa: PLC0415 - loaded before the fork

    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = ["trellis-jobs", *arguments]
    sys.stdin, sys.stdout = open(0, closefd=False), _output(1)  # noqa: SIM115
    sys.stderr = _output(2, errors="backslashreplace")
    code: object = 0
    try:
        main()
    except SystemExit as exit_:
        code = exit_.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    _flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _output(number: int, errors: str = "strict") -> io.TextIOWrapper:
    is_terminal = os.isatty(number)
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), "utf-8", errors, line_buffering=is_terminal or number > 1
    )


def _flush() -> None:
    for each in (sys.stdout, sys.stderr):
        try:
            each.flush()
        except OSError:  # its reader is gone
            continue


def import_all() -> None:
    """Also what commands import only when they run."""
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


if __name__ == "__main__":
    import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
