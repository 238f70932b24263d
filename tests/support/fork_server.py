"""Forks a process for each command and module that tests run.

Everything is loaded before the fork: a command takes a second of CPU time to import what it needs,
more than most of them run. `python -m tests.support.fork_server FD` serves a socket that it
inherited.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Final, NoReturn

ROOT: Final = Path(__file__).parents[2]
# The installed script: its arguments are those of the command line.
CLI: Final = "trellis-jobs"
_NUMBER: Final = struct.Struct("i")
_MAX_REQUEST: Final = 4 * 1024 * 1024
_PACKAGES: Final = ("trellis_jobs", "jobs_admin")


class ForkedProcess:
    """What tests use of `subprocess.Popen`.

    Its parent is a process of the fork server, which sends its exit code through a pipe.
    """

    def __init__(self, result: int) -> None:
        self._result = result
        self.pid = self._read()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._exit_code_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._exit_code_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is not None:
            return
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:  # its end is not in the pipe yet
            return

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _exit_code_within(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._result], [], [], timeout)[0]:
            self.returncode = self._read()
            os.close(self._result)
        return self.returncode

    def _read(self) -> int:
        (number,) = _NUMBER.unpack(os.read(self._result, _NUMBER.size))
        return int(number)


class ForkServer:
    """Starts processes, until its owner exits."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST)
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())),
                cwd=ROOT,
                pass_fds=(theirs.fileno(),),
            )

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        streams: Sequence[int],
    ) -> ForkedProcess:
        result, theirs = os.pipe()
        request = json.dumps([program, list(arguments), str(cwd), dict(env)]).encode()
        socket.send_fds(self._socket, [request], [*streams, theirs])
        os.close(theirs)
        return ForkedProcess(result)


@functools.cache
def _server() -> ForkServer:
    return ForkServer()


def fork(
    program: str,
    *arguments: str,
    stdout: IO[bytes],
    stderr: IO[bytes] | None = None,
    stdin: IO[bytes] | None = None,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> ForkedProcess:
    """Starts CLI, or the module of that name as a program.

    Errors go to `stdout` by default, and there is no input. `env` is its whole environment, by
    default the environment of this process.
    """
    env = os.environ if env is None else env
    with open(os.devnull, "rb") as nothing:
        streams = (stdin or nothing, stdout, stderr or stdout)
        files = tuple(each.fileno() for each in streams)
        return _server().start(program, arguments, cwd=cwd, env=env, streams=files)


def serve(requests: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the parents of commands
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _MAX_REQUEST, 4)
        if not data:
            return
        program, arguments, cwd, env = json.loads(data)
        _preload(program)
        if os.fork() == 0:
            requests.close()
            *streams, result = descriptors
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if _forked_and_reported(streams, result):
                _run(program, arguments, cwd, env, streams)
        for each in descriptors:
            os.close(each)


def _preload(program: str) -> None:
    """A module that cannot be imported fails in the process that runs it."""
    if program != CLI and program not in sys.modules:
        try:
            importlib.import_module(program)
        except Exception as error:
            print(f"{program} cannot be loaded before the fork: {error!r}", file=sys.stderr)


def _forked_and_reported(streams: Sequence[int], result: int) -> bool:
    """True in the new process. Its parent writes its pid and its exit code, and exits."""
    forked = os.fork()
    if forked == 0:
        os.close(result)
        return True
    for each in streams:
        os.close(each)
    os.write(result, _NUMBER.pack(forked))
    _, status = os.waitpid(forked, 0)
    os.write(result, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _run(
    program: str, arguments: list[str], cwd: str, env: dict[str, str], streams: list[int]
) -> NoReturn:
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.stdin, sys.stdout = open(0, closefd=False), _output(1)  # noqa: SIM115
    sys.stderr = _output(2, errors="backslashreplace")
    code = _exit_code(program, arguments)
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _exit_code(program: str, arguments: list[str]) -> int:
    try:
        if program == CLI:
            from jobs_admin.cli.app import main  # noqa: PLC0415 - loaded before the fork

            sys.argv = [CLI, *arguments]
            sys.modules["__main__"] = ModuleType("__main__")  # help names the program after it
            main()
        else:
            sys.argv = [program, *arguments]
            sys.modules.pop(program, None)
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        code = exit_.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
        return code if isinstance(code, int) else int(code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


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
    gc.freeze()  # the pages of these modules stay shared
    serve(socket.socket(fileno=int(sys.argv[1])))
