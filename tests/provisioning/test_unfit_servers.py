"""A server that cannot do it is named as such, soon."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.lab import lab_worker
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import InfrastructureMissing, Unreachable
from trellis_jobs.jetstream.client.connection import CONNECT_TIMEOUT, Connection

WITHOUT_JETSTREAM = """
accounts {
    PLAIN: { users: [{ user: plain, password: plain }] }
    APP: { jetstream: enabled, users: [{ user: app, password: app }] }
}
"""


async def test_an_address_without_a_server_fails_within_the_connect_timeout() -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        await Connection.open("nats://127.0.0.1:1", name="test", timeout=1)
    assert time.monotonic() - began < CONNECT_TIMEOUT, "the default"


async def test_an_account_without_jetstream_is_told_what_to_enable() -> None:
    with (
        EmbeddedServer.start(config=WITHOUT_JETSTREAM) as server,
        pytest.raises(InfrastructureMissing, match="enable JetStream for this account"),
    ):
        async with lab_worker().service.connect(f"nats://plain:plain@{HOST}:{server.port}"):
            pass


async def test_a_server_without_jetstream_is_told_how_to_start_it() -> None:
    with (
        plain_server() as url,
        pytest.raises(InfrastructureMissing, match="start nats-server with --jetstream"),
    ):
        async with lab_worker().service.connect(url):
            pass


@contextmanager
def plain_server() -> Iterator[str]:
    """The same binary, started without JetStream: the embedded server always has it."""
    binary = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    assert binary is not None
    with tempfile.TemporaryDirectory() as folder:
        argv = (binary, "--addr", HOST, "--port", "-1", "--ports_file_dir", folder)
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
            try:
                yield announced_url(Path(folder))
            finally:
                process.kill()


def announced_url(folder: Path) -> str:
    while True:
        for file in folder.glob("*.ports"):
            with suppress(ValueError):  # half written
                url: str = json.loads(file.read_text())["nats"][0]
                return url
