"""Every configuration in deploy/nats is what real servers take, and does what its page says."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.installation import made_by_following_the_page, on_this_machine, variables_of
from tests.docs.blocks import ROOT
from tests.support.facts import until
from tests.support.servers import VERSIONS, server_binary
from trellis_jobs import CertificateRefused, ConnectOptions, CredentialsRefused, TlsFiles
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.user_keys import ensure_seed

FOLDER: Final = ROOT / "deploy" / "nats"
READ_BY: Final = {
    "dev.conf": VERSIONS,
    "single.conf": VERSIONS,
    "cluster.conf": [each for each in VERSIONS if not each.startswith(("2.10", "2.11", "2.12"))],
}
PAIRS: Final = [(name, version) for name, versions in READ_BY.items() for version in versions]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page makes, laid out as on a server."""
    folder = made_by_following_the_page(tmp_path_factory.mktemp("repository"))
    made = folder / "etc"
    shutil.copytree(folder / "deploy" / "nats", made)
    shutil.copytree(folder / "deploy" / "secrets", made / "tls")
    for config in made.glob("*.conf"):
        config.write_text(on_this_machine(config.read_text(), made))
    return made


def test_every_configuration_is_tried() -> None:
    assert {file.name for file in FOLDER.glob("*.conf")} - {"accounts.conf"} == set(READ_BY)


@pytest.mark.parametrize(("name", "version"), PAIRS)
def test_servers_take_it(prepared: Path, name: str, version: str) -> None:
    checked = subprocess.run(
        (server_binary(version), "-t", "-c", prepared / name),
        env=variables_of("nats-1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


@contextmanager
def single(prepared: Path, store: Path, accounts: str | None = None) -> Iterator[EmbeddedServer]:
    store.mkdir()
    shutil.copy(prepared / "single.conf", store)
    (store / "accounts.conf").write_text(accounts or (prepared / "accounts.conf").read_text())
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables_of("nats-1").items():
            patch.setenv(variable, value)
        with EmbeddedServer.start(store=store, config="include ./single.conf") as server:
            yield server


def reload(server: EmbeddedServer) -> None:
    subprocess.run((server_binary(), "--signal", f"reload={server.pid}"), check=True)


def access(server: EmbeddedServer, prepared: Path, user: str) -> ConnectOptions:
    return ConnectOptions(
        servers=server.url,
        nkey=str(prepared / "tls" / f"{user}.nk"),
        tls=TlsFiles(ca=str(prepared / "tls" / "ca.crt")),
        inbox_prefix=f"_INBOX_{user}",
    )


async def test_a_single_server_lets_in_by_key_and_tls_only(prepared: Path, tmp_path: Path) -> None:
    with single(prepared, tmp_path / "store") as server:
        connection = await Connection.open(access(server, prepared, "provisioner"), name="test")
        assert connection.is_encrypted
        assert (await api.request(connection, "INFO"))["streams"] == 0
        await connection.close()
        with pytest.raises(CertificateRefused):
            await Connection.open(server.url, name="test", retry_connect=False)


async def test_another_user_is_let_in_after_a_reload_and_no_client_is_disconnected(
    prepared: Path, tmp_path: Path
) -> None:
    """What the page says of `--signal reload`; ann is known by another key at first."""
    everybody = (prepared / "accounts.conf").read_text()
    own, another = (ensure_seed(prepared / "tls" / f"{user}.nk") for user in ("ann", "unknown"))
    store = tmp_path / "store"
    with single(prepared, store, everybody.replace(own, another)) as server:
        ann = access(server, prepared, "ann")
        with pytest.raises(CredentialsRefused):
            await Connection.open(ann, name="ann", retry_connect=False)
        connection = await Connection.open(access(server, prepared, "provisioner"), name="test")
        lost: list[object] = []
        connection.on_reconnect(lambda: lost.append(connection))
        (store / "accounts.conf").write_text(everybody)
        reload(server)
        await until(lambda: "Reloaded server conf" in server.log.read_text(), "it has reloaded")
        await (await Connection.open(ann, name="ann")).close()
        assert (await api.request(connection, "INFO"))["streams"] == 0
        assert lost == []
        await connection.close()
