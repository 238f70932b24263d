"""The servers that jobs go through: on loopback, in an empty folder each, gone afterwards.

All are durable to the same degree: what they confirm is in a file, which is brought to the disk
within a second (RabbitMQ decides that by itself). A power cut may cost each its last second.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers.processes import Failed, running, tail
from trellis_jobs.embedded import HOST, EmbeddedServer

READY_WITHIN: Final = 60.0
LOOK: Final = 0.05
MAX_CLIENTS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    pid: int


@contextmanager
def redis(folder: Path) -> Generator[Server]:
    port, log = free_port(), folder / "log"
    listen = ["--bind", HOST, "--port", str(port), "--maxclients", str(MAX_CLIENTS)]
    durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    with running(["redis-server", *listen, "--dir", str(folder), *durable], log=log) as process:
        _until_open(port, process, log)
        yield Server(f"redis://{HOST}:{port}/0", process.pid)


@contextmanager
def nats(folder: Path) -> Generator[Server]:
    """By default it would leave two minutes to the disk's mercy: the same second as for Redis."""
    durable = "jetstream { sync_interval: 1s }"
    with EmbeddedServer.start(store=folder, config=durable) as server:
        yield Server(server.url, server.pid)


@contextmanager
def postgres(folder: Path) -> Generator[Server]:
    """It refuses to run as root, so there it runs as its package's user."""
    data, port, log = folder / "data", free_port(), folder / "log"
    data.mkdir()
    as_user = _as_user("postgres", folder)
    programs = _newest("/usr/lib/postgresql", "*/bin", "PostgreSQL")
    made = [f"{programs}/initdb", "-D", str(data), "-A", "trust", "-U", "postgres", "-N"]
    with log.open("ab") as written:
        subprocess.run([*as_user, *made], stdout=written, stderr=written, check=True)
    settings = {
        "listen_addresses": HOST,
        "unix_socket_directories": "",
        "max_connections": "150",
        "synchronous_commit": "off",  # confirmed before it is on the disk, as everybody here
        "wal_writer_delay": "300ms",  # on the disk within three of these
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = [*as_user, f"{programs}/postgres", "-D", str(data), "-p", str(port), *options]
    with running(command, log=log) as process:
        _until(_answers(f"{programs}/pg_isready", port), process, log)
        address = f"host={HOST} port={port} user=postgres dbname=postgres"
        yield Server(address, process.pid)


@contextmanager
def rabbitmq(folder: Path) -> Generator[Server]:
    """With its own port mapper, which would otherwise outlive it as a daemon."""
    port, mapper_port, log = free_port(), free_port(), folder / "log"
    configured, plugins = folder / "rabbitmq.conf", folder / "enabled_plugins"
    configured.write_text(f"listeners.tcp.local = {HOST}:{port}\nlog.console.level = error\n")
    plugins.write_text("[].")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"peers{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_CONFIG_FILE": str(configured),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RUNNING_UNDER_SYSTEMD": "yes",  # without a shell above it, which would die alone
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": HOST,
    }
    mapper = ["epmd", "-port", str(mapper_port), "-address", HOST]
    server = f"{_newest('/usr/lib/rabbitmq/lib', 'rabbitmq_server-*/sbin', 'RabbitMQ')}"
    with (
        running(mapper, log=log) as mapping,
        running([f"{server}/rabbitmq-server"], log=log, environment=environment) as process,
    ):
        _until_open(mapper_port, mapping, log)
        _until_open(port, process, log)
        yield Server(f"amqp://guest:guest@{HOST}:{port}//", process.pid)


Start = Callable[[Path], AbstractContextManager[Server]]


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _until_open(port: int, process: subprocess.Popen[str], log: Path) -> None:
    def is_open() -> bool:
        try:
            socket.create_connection((HOST, port), LOOK).close()
        except OSError:
            return False
        return True

    _until(is_open, process, log)


def _answers(asking: str, port: int) -> Callable[[], bool]:
    command = [asking, "-q", "-h", HOST, "-p", str(port)]
    return lambda: subprocess.run(command, check=False).returncode == 0


def _until(is_so: Callable[[], bool], process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not is_so():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"a server did not start; its log ends with:\n{tail(log)}")
        time.sleep(LOOK)


def _as_user(name: str, folder: Path) -> list[str]:
    """A change of user clears what was asked for in case the parent dies: ask again."""
    if os.getuid() != 0:
        return []
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise Failed(f"there is no user {name}: is its package installed?") from None
    for path in (folder, *folder.iterdir()):
        os.chown(path, user.pw_uid, user.pw_gid)
    ids = [f"--reuid={name}", f"--regid={name}", "--clear-groups"]
    return [str(shutil.which("setpriv")), "--pdeathsig=KILL", *ids]


def _newest(folder: str, versions: str, name: str) -> Path:
    found = sorted(Path(folder).glob(versions))
    if not found:
        raise Failed(f"{name} is not installed")
    return found[-1]
