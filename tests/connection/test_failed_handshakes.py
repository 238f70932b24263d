"""A server that ends a handshake costs the client no socket."""

from __future__ import annotations

import gc
import warnings

from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer


async def test_a_handshake_that_fails_leaves_no_socket_open(server: EmbeddedServer) -> None:
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always", ResourceWarning)
        async with fault_proxy(server.url) as proxy, probe(proxy.url) as client:
            proxy.refuse()
            await until(lambda: proxy.turned_away >= 3, "three attempts have failed")
            proxy.admit()
            await until(lambda: client.connection.is_connected, "the client is connected again")
        gc.collect()
    assert [str(warning.message) for warning in recorded] == []
