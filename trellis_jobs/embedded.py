"""A real nats-server in a child process, for development and tests, on Linux and macOS.

    with EmbeddedServer.start() as server:
        await nats.connect(server.url)

It listens on 127.0.0.1 only, keeps its data in files, and is ready when `start` returns.
It stops when its parent ends. On macOS it keeps running if the parent is killed.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from trellis_jobs.child_process import ending_with_parent
from trellis_jobs.errors import JobsError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import TracebackType
    from typing import Self

HOST: Final = "127.0.0.1"
READY_TIMEOUT: Final = 30.0
STOP_TIMEOUT: Final = 5.0
POLL_INTERVAL: Final = 0.01
LOG_TAIL_LINES: Final = 15


class EmbeddedServerMissing(JobsError):
    def __init__(self, searched: str) -> None:
        super().__init__(
            f"no nats-server at {searched}. Run pip install 'trellis-jobs[embedded]', "
            "or install nats-server and put it on PATH"
        )
        self.searched = searched


class EmbeddedServerFailed(JobsError):
    def __init__(self, reason: str, log_tail: str = "") -> None:
        ending = f"; its log ends with:\n{log_tail}" if log_tail else ""
        super().__init__(f"nats-server {reason}{ending}")
        self.reason = reason
        self.log_tail = log_tail


class EmbeddedServer:
    """One server. `store` is the folder with its data, configuration and log.

    All methods block, usually for some milliseconds. Use `asyncio.to_thread` in coroutines.
    """

    port: int
    _process: subprocess.Popen[bytes]

    def __init__(self, *, binary: Path, store: Path, is_temporary: bool, config: str) -> None:
        self.store = store
        self.log = store / "server.log"
        self._binary = binary
        self._is_temporary = is_temporary
        self._config = config

    @classmethod
    def start(
        cls,
        *,
        store: Path | None = None,
        port: int | None = None,
        binary: Path | None = None,
        config: str = "",
    ) -> EmbeddedServer:
        """Starts a server, by default on a free port and with a temporary store.

        `config` is configuration text of nats-server, such as `max_payload: 65536`.
        """
        found = _find_binary(binary)
        folder = store.resolve() if store else Path(tempfile.mkdtemp(prefix="trellis-jobs-"))
        server = cls(binary=found, store=folder, is_temporary=store is None, config=config)
        server._launch(port)
        return server

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Stops the server, by force after a timeout, and deletes a temporary store."""
        self._end()
        atexit.unregister(self.stop)
        if self._is_temporary:
            shutil.rmtree(self.store, ignore_errors=True)

    def kill(self) -> None:
        """Kills the server without a clean stop, and keeps the store."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Stops the server if it runs, and starts it again on the same port and store."""
        self._end()
        self._launch(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()

    def _launch(self, port: int | None) -> None:
        self.store.mkdir(parents=True, exist_ok=True)
        with _locked(self.store) as lock:
            for stale_file in self.store.glob("*.ports"):
                stale_file.unlink()
            self._process = _spawn(self._command(port), log=self.log, lock=lock)
        atexit.register(self.stop)
        try:
            self.port = self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def _command(self, port: int | None) -> Sequence[str]:
        """Flags override the same settings in `config`."""
        folder, conf = str(self.store), self.store / "nats.conf"
        conf.write_text(self._config)
        listen = ("--addr", HOST, "--port", str(port or -1), "--ports_file_dir", folder)
        return (str(self._binary), "--config", str(conf), *listen, "-js", "--store_dir", folder)

    def _wait_until_ready(self) -> int:
        """Returns the port from the ports file, which only this server can have written."""
        deadline = time.monotonic() + READY_TIMEOUT
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise self._failed(f"ended with code {self._process.returncode}")
            port = _announced_port(self.store)
            if port is not None and _offers_jetstream(port):
                return port
            time.sleep(POLL_INTERVAL)
        raise self._failed(f"was not ready after {READY_TIMEOUT:g} s")

    def _failed(self, reason: str) -> EmbeddedServerFailed:
        lines = self.log.read_text(errors="replace").splitlines()
        return EmbeddedServerFailed(reason, "\n".join(lines[-LOG_TAIL_LINES:]))


def _find_binary(given: Path | None) -> Path:
    if given is not None:
        if os.access(given, os.X_OK):
            return given.resolve()
        raise EmbeddedServerMissing(str(given))
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("nats-server", path=scripts) or shutil.which("nats-server")
    if found is None:
        raise EmbeddedServerMissing(f"{scripts} or on PATH")
    return Path(found)


@contextmanager
def _locked(store: Path) -> Generator[int]:
    """Locks the store: two servers would corrupt it, and nats-server does not check.

    The server inherits the lock, so it is held until the server ends.
    """
    with (store / "server.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EmbeddedServerFailed(f"already runs on {store}") from None
        yield lock.fileno()


def _spawn(command: Sequence[str], *, log: Path, lock: int) -> subprocess.Popen[bytes]:
    """Starts the server from a thread that lives as long as the server.

    Linux treats the end of the *thread* that forked as the parent's death, and the thread that
    calls `start` may end early.
    """
    spawned: Future[subprocess.Popen[bytes]] = Future()

    def run_server() -> None:
        try:
            process = _popen(command, log=log, lock=lock)
        except OSError as error:
            spawned.set_exception(error)
            return
        spawned.set_result(process)
        process.wait()

    Thread(target=run_server, name="nats-server", daemon=True).start()
    return spawned.result()


def _popen(command: Sequence[str], *, log: Path, lock: int) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            ending_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C is for the parent, which stops the server last
        )


def _announced_port(store: Path) -> int | None:
    """Returns the port in nats-server's ports file. Returns None until the file is written."""
    for file in store.glob("*.ports"):
        try:
            address: str = json.loads(file.read_text())["nats"][0]
        except (OSError, ValueError):  # partly written, or deleted by a server that stops
            return None
        return int(address.rpartition(":")[2])
    return None


def _offers_jetstream(port: int) -> bool:
    try:
        with (
            socket.create_connection((HOST, port), timeout=1) as peer,
            peer.makefile("rb") as lines,
        ):
            info = lines.readline()
    except OSError:
        return False
    return info.startswith(b"INFO ") and json.loads(info[5:]).get("jetstream") is True
