"""What the figures were measured on, in words."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from benchmarks.peers.contestants import Contestant
from benchmarks.peers.installing import requirements_of

CPU_NAMES: Final = Path("/proc/cpuinfo")
# What tells the version of a server; RabbitMQ can say it only while it runs.
ASKED: Final = {
    "Redis": ["redis-server", "--version"],
    "nats-server": ["nats-server", "--version"],
    "RabbitMQ": ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"],
    "PostgreSQL": ["psql", "--version"],
}
VERSION: Final = re.compile(r"\d+(\.\d+)+")


def about(contestants: Iterable[Contestant], programs: Path) -> Mapping[str, str]:
    tools = {one.environment for one in contestants if one.environment is not None}
    servers = {name: _version(command, programs) for name, command in ASKED.items()}
    return {
        "CPU": f"{os.cpu_count()} × {_cpu_name()}",
        "Python": platform.python_version(),
        **{name: version for name, version in servers.items() if version},
        **{tool: _pinned(tool) for tool in sorted(tools)},
    }


def _cpu_name() -> str:
    lines = CPU_NAMES.read_text().splitlines()
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())


def _version(command: list[str], programs: Path) -> str | None:
    path = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env=path)
    except FileNotFoundError:
        return None
    found = VERSION.search(answer.stdout)
    return found.group() if found else None


def _pinned(tool: str) -> str:
    pins = requirements_of(tool).read_text().splitlines()
    return next(pin.partition("==")[2] for pin in pins if pin.startswith(f"{tool}=="))
