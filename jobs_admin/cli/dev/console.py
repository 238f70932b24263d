"""The web console of a session."""

from __future__ import annotations

import asyncio
import webbrowser
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import PortUnavailable
from jobs_admin.cli.console.running import INSTALL, ConsoleMissing, console_running
from jobs_admin.console.config import DEFAULT_PORT, ConsoleConfig
from jobs_admin.console.users import Role

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trellis_jobs.jetstream.client.connect_options import ConnectOptions

_ENVIRONMENT: Final = "dev"


@dataclass(frozen=True, slots=True)
class DevConsole:
    """Port None is the default port, or a free one if that is in use. `opens`: in a browser."""

    port: int | None
    opens: bool

    @asynccontextmanager
    async def running(self, access: ConnectOptions) -> AsyncIterator[str]:
        """Yield where the console is or, without its packages, how to install them."""
        async with AsyncExitStack() as opened:
            try:
                address = await self._start(opened, access)
            except ConsoleMissing:
                yield f"console: {INSTALL}"
                return
            if self.opens:
                await asyncio.to_thread(webbrowser.open, address)
            yield f"console: {address}"

    async def _start(self, opened: AsyncExitStack, access: ConnectOptions) -> str:
        roles = dict.fromkeys(Role, access)
        port = DEFAULT_PORT if self.port is None else self.port
        config = ConsoleConfig(port=port, environment=_ENVIRONMENT)
        try:
            return await opened.enter_async_context(console_running(config, roles))
        except PortUnavailable:
            if self.port is not None:
                raise
        config = ConsoleConfig(port=0, environment=_ENVIRONMENT)
        return await opened.enter_async_context(console_running(config, roles))
