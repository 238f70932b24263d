"""The composition root: wires declarations, connection, producer and worker into one service."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar, overload

from trellis_jobs.contract.permissions.grants import inbox_prefix
from trellis_jobs.environment import Environment
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.client.connect_options import ConnectOptions, as_connect_options
from trellis_jobs.jetstream.client.connection import CONNECT_TIMEOUT
from trellis_jobs.jetstream.client.startup import Startup
from trellis_jobs.jetstream.setup.features import detect_replicas
from trellis_jobs.service.connector import Replicas, assemble, prepare_connection
from trellis_jobs.service.deployment import deployment
from trellis_jobs.service.jobs import Jobs
from trellis_jobs.service.runtime import Connected, Runtime
from trellis_jobs.service.sync.bridge import Bridge
from trellis_jobs.service.sync.client import SyncClient
from trellis_jobs.service.worker_selection import Workers, select_workers
from trellis_jobs.worker.middleware import Middleware
from trellis_jobs.worker.signals import handle_signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager
    from datetime import timedelta

    from trellis_jobs.contract.bindings import Bindings
    from trellis_jobs.service.resources import Resource

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Jobs)
T = TypeVar("T")
M = TypeVar("M", bound=Middleware)

GRACE: Final = 25.0
INTERRUPT_GRACE: Final = 1.0


class Service(Generic[J]):
    """A service: `service.jobs` has its queues, `connect` connects them to a server.

    `bindings` give the service and its queues other names on the server, as in `contract`.
    `version` and `labels` tell its workers from others; without them, the environment variables
    TRELLIS_JOBS_APP_VERSION and TRELLIS_JOBS_LABELS do. `dead_after` is how many seconds a worker
    may be silent before its jobs are started elsewhere.
    """

    def __init__(
        self,
        jobs: type[J],
        *,
        grace: float = GRACE,
        bindings: Bindings | None = None,
        version: str | None = None,
        labels: Iterable[str] | None = None,
        dead_after: float | timedelta | None = None,
    ) -> None:
        self.deployment = deployment(version, labels, dead_after)
        self.contract = jobs.contract if bindings is None else bindings.bind(jobs.contract)
        bound = {} if bindings is None else bindings.bound(jobs.contract)
        self._names = {name: queue.name for name, queue in bound.items()}
        self._bindings = bindings
        self._sync_clients: dict[ConnectOptions, SyncClient] = {}
        if grace < 0:
            raise DeclarationError(f"grace cannot be negative, is {grace}")
        self.grace = grace
        self._runtime = Runtime(
            self.contract.service, Environment(), bound, self.contract.queues.values()
        )
        self._stopping: asyncio.Task[None] | None = None
        self.jobs: J = jobs(self._runtime)

    @property
    def name(self) -> str:
        return self.contract.service

    @overload
    def lifespan(self, opens: Callable[[], AbstractAsyncContextManager[T]], /) -> Resource[T]: ...
    @overload
    def lifespan(
        self, opens: Callable[[Service[J]], AbstractAsyncContextManager[T]], /
    ) -> Resource[T]: ...
    def lifespan(self, opens: Callable[..., AbstractAsyncContextManager[T]], /) -> Resource[T]:
        """Decorates an async context manager that opens a resource for handlers.

        It is entered before workers take their first job and exited after their last. Several
        open in the order of declaration and close in reverse. `connect(workers=False)` opens none.
        """
        self._runtime.require_unconnected("a lifespan must be declared")
        return self._runtime.resources.declare(opens, self)

    def around(self, middleware: M, /) -> M:
        """Decorates `async def middleware(job, call_next)`, which wraps every attempt.

        `await call_next(job)` runs the handler and returns its result. The first one declared is
        the outermost. Its result or exception replaces that of the handler.
        """
        self._runtime.require_unconnected("middleware must be declared")
        self._runtime.handlers.add_middleware(middleware)
        return middleware

    @asynccontextmanager
    async def connect(
        self,
        url: str | ConnectOptions = "nats://127.0.0.1:4222",
        *,
        workers: bool | Workers = True,
        credentials: str | None = None,
        replicas: int | None = None,
        system_account: str | None = None,
        connect_timeout: float | None = CONNECT_TIMEOUT,
    ) -> AsyncIterator[Service[J]]:
        """Connects, sets up the streams, and starts a worker for each queue with a handler.

        `url` may be `ConnectOptions`, with keys and certificates. `workers=False` only creates
        jobs; `Workers(...)` selects queues. If these credentials may not create streams, an
        operator has to create them first, or this fails at once.
        New streams get `replicas`. By default that is as many as the cluster supports if
        `system_account` (a URL with user and password, or a credentials file) is given, else one.
        `connect_timeout` is how many seconds to wait for a server with JetStream; None waits
        without a limit.
        """
        if self._runtime.is_inline:
            yield self
            return
        selected = select_workers(workers, self.contract, self._runtime.handlers, self._names)
        detected = 1
        options = as_connect_options(url, credentials).with_inbox_prefix(inbox_prefix(self.name))
        startup = Startup(connect_timeout)
        async with self._runtime.connection(options, startup) as connection:
            if replicas is None and system_account is not None:
                detected = await detect_replicas(options, system_account)
            prepare = partial(
                prepare_connection,
                connection,
                self.contract,
                self._runtime,
                Replicas(replicas, detected),
                self.deployment,
            )
            dependencies = await startup.until_ready(prepare)
            async with self._running(assemble(self.contract, dependencies, selected)):
                yield self

    def connect_sync(
        self, url: str | ConnectOptions = "nats://127.0.0.1:4222", *, credentials: str | None = None
    ) -> SyncClient:
        """Returns a client for code without an event loop: views, scripts, sync handlers.

        It connects at its first use. The same arguments return the same client in a process.
        """
        options = as_connect_options(url, credentials)
        if (client := self._sync_clients.get(options)) is not None:
            return client

        @asynccontextmanager
        async def connect() -> AsyncIterator[Runtime]:
            # This service may be connected on another event loop at the same time.
            twin = Service(type(self.jobs), bindings=self._bindings)
            async with twin.connect(options, workers=False):
                yield twin.jobs.runtime

        return self._sync_clients.setdefault(options, SyncClient(Bridge(self._runtime, connect)))

    @asynccontextmanager
    async def _running(self, live: Connected) -> AsyncIterator[None]:
        """Opens resources before the first job of the workers, and closes them after the last."""
        # Code that opens resources may create jobs, but there is no worker to pause or stop yet.
        self._runtime.live = replace(live, host=None)
        async with AsyncExitStack() as opened:
            if live.host is not None:
                await opened.enter_async_context(self._runtime.resources.opened())
                await live.host.start(lambda: self._begin_stop(live, self.grace))
            self._runtime.live = live
            try:
                yield
            finally:
                await self._stop(live, self.grace)

    @property
    def is_up(self) -> bool:
        """Whether the service is connected now. During an outage it reconnects by itself."""
        live = self._runtime.live
        return live is not None and live.connection.is_connected

    async def wait(self) -> None:
        """Waits for stop() or a signal: TERM and INT stop, TSTP pauses, CONT resumes."""
        live = self._runtime.connected_here()

        def end(grace: float) -> Callable[[], None]:
            return lambda: self._begin_stop(live, grace)

        host = live.host
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: end(self.grace),
            signal.SIGINT: end(INTERRUPT_GRACE),
        }
        if host is not None:
            actions |= {signal.SIGTSTP: host.quiet, signal.SIGCONT: host.resume}
        with handle_signals(actions):
            await live.stopped.wait()
            await self._stop(live, self.grace)

    async def drain(self) -> None:
        """Waits until the queues of this worker are empty, then stops."""
        live = self._runtime.connected_here()
        if live.host is not None:
            await live.host.until_drained()
        await self.stop()

    async def stop(self, grace: float | None = None) -> None:
        """Lets running jobs finish within the grace period, and puts the rest back."""
        await self._stop(self._runtime.connected_here(), self.grace if grace is None else grace)

    def quiet(self) -> None:
        """Takes no new jobs until resume(). Running jobs continue."""
        host = self._runtime.connected.host
        if host is not None:
            host.quiet()

    def resume(self) -> None:
        host = self._runtime.connected.host
        if host is not None:
            host.resume()

    def _begin_stop(self, live: Connected, grace: float) -> None:
        """A second signal ends the grace period."""
        if live.stopped.is_set():
            grace = 0
        # Before the event is set: wait() also stops, and the first call decides the grace period.
        self._stopping = asyncio.get_running_loop().create_task(self._stop(live, grace))
        live.stopped.set()

    async def _stop(self, live: Connected, grace: float) -> None:
        live.stopped.set()
        if live.host is not None:
            await live.host.stop(grace)
