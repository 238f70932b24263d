"""What docker-compose.yml describes, as processes of this machine: same files, same commands.

Keys, rights and certificates are made by following deploy/nats/README.md to the letter. Only
addresses and folders differ from what the containers see.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from tests.cli.command import Command, environment
from tests.deploy.compose import Container, containers
from tests.docs.blocks import ROOT, blocks
from tests.support.cluster import free_ports
from tests.support.facts import until
from trellis_jobs import ConnectOptions
from trellis_jobs.embedded import HOST, EmbeddedServer

NODES: Final = ("nats-1", "nats-2", "nats-3")
# The blocks that make keys, rights and certificates.
_MAKING: Final = re.compile(r"credentials new|trellis-jobs permissions|openssl")


def made_by_following_the_page(folder: Path) -> Path:
    """A copy of what the page works on, and what its commands make of it."""
    shutil.copytree(ROOT / "deploy", folder / "deploy", ignore=shutil.ignore_patterns("secrets"))
    (folder / "examples").symlink_to(ROOT / "examples")
    typed = [
        block.text
        for block in blocks("deploy/nats/README.md")
        if block.language == "sh" and _MAKING.search(block.text)
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ("/bin/bash", "-euc", "".join(typed)),
        cwd=folder,
        env=environment({"PATH": path, "PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@dataclass(frozen=True)
class Installation:
    folder: Path
    nodes: dict[str, EmbeddedServer]

    @contextmanager
    def running(self, name: str, **more: str) -> Iterator[Command]:
        """A container's command, until the end of the block."""
        own = self.folder / name
        own.mkdir()
        with (own / "said").open("wb") as output:
            process = self._start(containers()[name], output.fileno(), more)
        try:
            yield Command(process, own / "said")
        finally:
            process.kill()
            process.wait()

    def run(self, name: str) -> str:
        """What a container's command prints, until it ends well."""
        with self.running(name) as command:
            assert command.process.wait(60) == 0, command.printed
            return command.printed

    async def until_healthy(self) -> None:
        """As the health checks of the containers see it."""
        for name, node in self.nodes.items():
            await until(partial(_is_healthy, node), f"{name} is healthy")

    def greets_another_node(self, name: str, certificate: str | None) -> bool:
        """Whether a node talks to who would be another one, with this certificate or none."""
        secrets = self.folder / "deploy" / "secrets"
        around = ssl.create_default_context(cafile=str(secrets / "ca.crt"))
        if certificate is not None:
            around.load_cert_chain(secrets / f"{certificate}.crt", secrets / f"{certificate}.key")
        port = int(_announced(self.nodes[name], "cluster").rpartition(":")[2])
        with socket.create_connection((HOST, port), timeout=10) as plain:
            try:
                with around.wrap_socket(plain, server_hostname=HOST) as peer:
                    return peer.recv(4) == b"INFO"
            except ssl.SSLError:
                return False

    def access(self, name: str) -> ConnectOptions:
        return ConnectOptions.from_environment(self._environment(containers()[name]))

    def _start(
        self, container: Container, output: int, more: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        program, *arguments = [self._outside(container, each) for each in container.command]
        found = Path(sys.executable).with_name(program)
        variables = {**self._environment(container), "PYTHONPATH": str(ROOT), **more}
        return subprocess.Popen(
            (str(found), *arguments),
            cwd=self.folder,
            env=environment(variables),
            stdout=output,
            stderr=output,
        )

    def _environment(self, container: Container) -> dict[str, str]:
        found = container.environment.items()
        return {name: self._outside(container, value) for name, value in found}

    def _outside(self, container: Container, inside: str) -> str:
        """Paths and addresses as they are on this machine."""
        for path, file in container.files.items():
            inside = inside.replace(path, str(self.folder / file))
        for path, volume in container.volumes.items():
            inside = inside.replace(path, str(self.folder / volume))
        for name, node in self.nodes.items():
            inside = inside.replace(f"{name}:4222", f"{HOST}:{node.port}")
        return inside


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    made_by_following_the_page(folder)
    routes = dict(zip(NODES, free_ports(len(NODES)), strict=True))
    with ExitStack() as stack:
        nodes = {name: stack.enter_context(_node(folder, name, routes)) for name in NODES}
        yield Installation(folder, nodes)


@contextmanager
def _node(folder: Path, name: str, routes: dict[str, int]) -> Iterator[EmbeddedServer]:
    container, store = containers()[name], folder / "store" / name
    for inside, file in container.files.items():
        target = store / inside.removeprefix("/etc/nats/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / file, target)
    for config in store.glob("*.conf"):
        config.write_text(on_this_machine(config.read_text(), store, routes[name]))
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables_of(name, routes).items():
            patch.setenv(variable, value)
        with EmbeddedServer.start(store=store, config="include ./cluster.conf") as server:
            yield server


def _is_healthy(node: EmbeddedServer) -> bool:
    try:
        with urlopen(f"{_announced(node, 'monitoring')}/healthz", timeout=2) as answer:  # noqa: S310
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _announced(node: EmbeddedServer, what: str) -> str:
    [file] = node.store.glob("*.ports")
    [address] = json.loads(file.read_text())[what]
    return str(address)


def variables_of(node: str, routes: Mapping[str, int] | None = None) -> dict[str, str]:
    """The environment of a server, with the other servers where they are here."""
    found = containers()[node].environment
    for name, port in (routes or {}).items():
        found = {
            variable: value.replace(f"{name}:6222", f"{HOST}:{port}")
            for variable, value in found.items()
        }
    return found


def on_this_machine(config: str, store: Path, route: int = -1) -> str:
    return (
        config.replace("/etc/nats/", f"{store}/")
        .replace("store_dir: /var/lib/nats", "")  # said on the command line
        .replace("0.0.0.0:6222", f'"{HOST}:{route}"')
        .replace("127.0.0.1:8222", f'"{HOST}:-1"')
    )
