"""What one service can use up, where servers have limits: connections and subscriptions."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import pytest

from tests.permissions.installation import WHO, Installation, printed
from tests.support.facts import until
from trellis_jobs.contract.permissions.accounts import SERVICE_LIMITS
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureError
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection


def test_every_account_of_a_service_has_limits() -> None:
    told = json.loads(printed(*WHO, "--shape", "accounts", "--json"))
    found = {name: account.get("limits") for name, account in told["config"]["accounts"].items()}
    assert found == {
        "PLATFORM": None,
        "OPERATORS": None,
        "house": SERVICE_LIMITS,
        "garden": SERVICE_LIMITS,
        "orchard": SERVICE_LIMITS,
    }


async def test_connections_of_one_service_cannot_use_up_those_of_others(
    in_accounts: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in in_accounts.prefixes:
        monkeypatch.setenv(f"{name.replace('-', '_').upper()}_PASSWORD", name)
    most = f"max_connections: {SERVICE_LIMITS['max_connections']}"
    config = printed(*WHO, "--shape", "accounts").replace(most, "max_connections: 2")
    with EmbeddedServer.start(config=config) as server:

        async def connect(name: str) -> Connection:
            access = ConnectOptions(servers=server.url, user=name, password=name)
            return await Connection.open(access, name=name, timeout=20, retry_connect=False)

        async def is_refused_with_the_reason() -> bool:
            """The server closes the socket at once, which may overtake the reason."""
            with pytest.raises(InfrastructureError) as refused:
                await connect("garden")
            return "maximum account active connections" in str(refused.value)

        async with AsyncExitStack() as opened:
            for name in ("garden", "garden"):
                opened.push_async_callback((await connect(name)).close)
            await until(is_refused_with_the_reason, "the server names the limit")
            opened.push_async_callback((await connect("house")).close)
