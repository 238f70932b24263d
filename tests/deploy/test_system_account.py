"""The user that `permissions --system` prints: asks how the servers store, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import shell
from trellis_jobs import ConnectOptions
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.user_keys import ensure_seed
from trellis_jobs.jetstream.setup.features import jetstream_report, syncs_every_write


@pytest.mark.parametrize("shape", ["users", "accounts"])
async def test_it_asks_how_the_server_stores_and_nothing_else(shape: str, tmp_path: Path) -> None:
    seeds = {user: tmp_path / f"{user}.nk" for user in ("sys", "provisioner")}
    keys = [f"{user}={ensure_seed(seed)}" for user, seed in seeds.items()]
    printed = shell(
        *("permissions", "--provisioner", "--system", "--shape", shape),
        *(word for key in keys for word in ("--nkey", key)),
    )
    assert printed.code == 0, printed.err
    assert "# Use sys with --system-account" in printed.out
    with EmbeddedServer.start(config=printed.out) as server:
        others = ConnectOptions(servers=server.url, nkey=str(seeds["provisioner"]))
        assert syncs_every_write(await jetstream_report(others, str(seeds["sys"]))) is False
        assert await jetstream_report(others, str(seeds["provisioner"])) is None
        system = await Connection.open(
            ConnectOptions(servers=server.url, nkey=str(seeds["sys"])), name="test"
        )
        with pytest.raises(NotPermitted):
            await system.request("$SYS.REQ.SERVER.PING.CONNZ", timeout=5)
        await system.close()
