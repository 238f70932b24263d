"""Runs the console's web server within an event loop that has other work."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import uvicorn

from jobs_admin.api.errors import PortUnavailable
from jobs_admin.api.views.changes import ChangesView
from jobs_admin.console.app import console_app
from jobs_admin.console.connections import Connections
from jobs_admin.console.console_request import ConsoleContext
from jobs_admin.console.event_stream import MAX_STREAMS
from jobs_admin.console.live import LiveHints
from jobs_admin.console.rendering import Renderer
from jobs_admin.console.request_timeout import RequestTimeoutProtocol
from jobs_admin.console.screens import BUNDLE_SCREENS, SCREENS
from jobs_admin.console.users import ALL_ROLES, Role, User
from trellis_jobs.environment import utc_now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jobs_admin.console.bundle_reads import BundleReads
    from jobs_admin.console.config import ConsoleConfig

_HINTS_USER: Final = User("console", ALL_ROLES)
_CLIENT_TIMEOUT_MS: Final = 30_000
_MAX_CONNECTIONS: Final = 2 * MAX_STREAMS


@asynccontextmanager
async def console_serving(config: ConsoleConfig, connections: Connections) -> AsyncIterator[str]:
    """Serve within the block, and yield the address. Raises ConfigError and PortUnavailable."""
    live = LiveHints(partial(_changes, connections))
    console = ConsoleContext(config, connections, live, SCREENS, Renderer(SCREENS), utc_now)
    async with _serving(console) as address:
        yield address


@asynccontextmanager
async def bundles_serving(config: ConsoleConfig, bundles: BundleReads) -> AsyncIterator[str]:
    """The same for the jobs of bundles, without a server. Nothing changes while it runs."""
    console = ConsoleContext(
        config,
        Connections({}),
        LiveHints(_no_changes),
        BUNDLE_SCREENS,
        Renderer(BUNDLE_SCREENS, is_offline=True),
        bundles.now,
        bundles,
    )
    async with _serving(console) as address:
        yield address


@asynccontextmanager
async def _serving(console: ConsoleContext) -> AsyncIterator[str]:
    config = console.config
    config.check()
    app = console_app(console)
    listening = _listen(config)
    server = _Server(
        uvicorn.Config(
            app,
            http=RequestTimeoutProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            proxy_headers=False,  # only --trusted-proxy says whose headers count
            limit_concurrency=_MAX_CONNECTIONS,
        )
    )
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        host, port = listening.getsockname()[:2]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        console.live.stop()
        server.should_exit = server.force_exit = True
        await asyncio.gather(running, return_exceptions=True)
        listening.close()


async def _no_changes(after: int, wait: float) -> ChangesView:
    await asyncio.sleep(wait)
    return ChangesView(seq=after)


async def _changes(connections: Connections, after: int, wait: float) -> ChangesView:
    client = connections.client(_HINTS_USER, Role.VIEWER)
    return await client.changes(after, wait_ms=round(wait * 1_000))


def _listen(config: ConsoleConfig) -> socket.socket:
    try:
        found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        listening = socket.create_server(address[:2], family=family)
    except (OSError, OverflowError) as error:
        raise PortUnavailable(config.host, config.port, str(error), option="--port") from error
    # Connections inherit it. asyncio does not set it on them, as their protocol is unspecified, and
    # a reply of several parts would then wait 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        # Connections inherit this, too. One whose client takes no data for this long is closed.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _CLIENT_TIMEOUT_MS)
    return listening


class _Server(uvicorn.Server):
    """The command that runs the server handles signals, not the server."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
