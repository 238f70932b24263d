"""The composition root: wires declarations, connection, producer and worker into one service."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from trellis_jobs.contract.topology import Topology
from trellis_jobs.errors import DeclarationError, NotConnected, NotPermitted
from trellis_jobs.jetstream.connection import Connection
from trellis_jobs.jetstream.event_log import EventLog
from trellis_jobs.jetstream.presence import Presence
from trellis_jobs.jetstream.provision import provision, require_log
from trellis_jobs.jetstream.server import detect_features, detect_replicas
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.producer.job_ref import JobRef
from trellis_jobs.producer.submission import CreatedJob, Producer
from trellis_jobs.service.jobs import Jobs
from trellis_jobs.surroundings import Surroundings
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.worker.handlers import Handler, Handlers
from trellis_jobs.worker.host import HostDoors, WorkerHost
from trellis_jobs.worker.signals import listening
from trellis_jobs.worker.sync_handlers import as_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Jobs)
P = TypeVar("P")
R = TypeVar("R")

GRACE: Final = 25.0
INTERRUPT_GRACE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Workers:
    """Which queues this process works on, and how many jobs of each at once (None: as declared)."""

    queues: Collection[str] | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class _Connected:
    connection: Connection
    events: EventLog
    producer: Producer
    host: WorkerHost | None
    stopped: asyncio.Event


class Service(Generic[J]):
    """`service.jobs` is the typed Jobs class; `connect` makes it work."""

    def __init__(self, jobs: type[J], *, grace: float = GRACE) -> None:
        self.jobs: J = jobs(self)
        self.contract = jobs.contract
        self.grace = grace
        self._handlers = Handlers()
        self._surroundings = Surroundings()
        self._live: _Connected | None = None

    @property
    def name(self) -> str:
        return self.contract.service

    @asynccontextmanager
    async def connect(
        self,
        url: str = "nats://127.0.0.1:4222",
        *,
        workers: bool | Workers = True,
        credentials: str | None = None,
        replicas: int | None = None,
        system_account: str | None = None,
    ) -> AsyncIterator[Service[J]]:
        """Connect, provision or check, and start a worker for each handled queue.

        `workers=False` only produces; `Workers(...)` chooses queues. Where these credentials may
        not provision, an operator has to; then a start without the streams fails at once.
        New streams get `replicas`, else as many as the cluster can hold if `system_account` (a
        URL with user and password, or a credentials file) lets us ask, else one.
        """
        if self._live is not None:
            raise DeclarationError(f"service {self.name!r} is connected already")
        wanted = workers if isinstance(workers, Workers) else Workers()
        handlers = self._chosen(wanted) if workers else []
        if isinstance(workers, Workers) and not handlers:
            raise DeclarationError(f"service {self.name!r} has no handlers: nothing to work on")
        connection = await Connection.open(url, name=f"{self.name} jobs", credentials=credentials)
        try:
            detected = 1
            if replicas is None and system_account is not None:
                detected = await detect_replicas(url, system_account)
            doors = await self._prepare(connection, replicas, detected)
            live = self._live = self._wire(doors, handlers, wanted)
            if live.host is not None:
                await live.host.start()
            try:
                yield self
            finally:
                await self._stop(self.grace)
        finally:
            self._live = None
            await connection.close()

    async def wait(self) -> None:
        """Until stop() or a signal: TERM and INT end the service, TSTP and CONT pause it."""
        live = self._connected()

        def end(grace: float) -> Callable[[], None]:
            return lambda: self._begin_stop(grace)

        host = live.host
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: end(self.grace),
            signal.SIGINT: end(INTERRUPT_GRACE),
        }
        if host is not None:
            actions |= {signal.SIGTSTP: host.quiet, signal.SIGCONT: host.resume}
        with listening(actions):
            await live.stopped.wait()
            await self._stop(self.grace)

    async def drain(self) -> None:
        """Until no queue of this worker has anything left to do, then stop."""
        live = self._connected()
        if live.host is not None:
            await live.host.until_drained()
        await self.stop()

    async def stop(self, grace: float | None = None) -> None:
        """No new work; finish what runs within the grace period, hand back the rest."""
        self._connected()
        await self._stop(self.grace if grace is None else grace)

    def quiet(self) -> None:
        """Take no new work until resume(); what runs goes on."""
        host = self._connected().host
        if host is not None:
            host.quiet()

    def resume(self) -> None:
        host = self._connected().host
        if host is not None:
            host.resume()

    def register(self, queue: JobType[Any, Any], handler: Callable[..., Any]) -> None:
        if self._live is not None:
            raise DeclarationError(
                f"queue {queue.name!r}: handlers must be registered before the service connects"
            )
        name = getattr(handler, "__qualname__", repr(handler))
        self._handlers.register(queue, as_async(handler), name)

    async def create(
        self, queue: JobType[P, R], payload: P, *, job_id: str | None, deadline: datetime | None
    ) -> JobRef[R]:
        producer = self._connected().producer
        request = producer.request(queue, payload, job_id=job_id, deadline=deadline)
        return self._made(queue, await producer.create(request))

    async def create_many(
        self, queue: JobType[P, R], payloads: Iterable[P], *, deadline: datetime | None
    ) -> list[JobRef[R]]:
        producer = self._connected().producer
        requests = [producer.request(queue, payload, deadline=deadline) for payload in payloads]
        return [self._made(queue, created) for created in await producer.create_many(requests)]

    def ref(self, queue: JobType[P, R], job_id: str) -> JobRef[R]:
        return self._made(queue, CreatedJob(JobAddress(self.name, queue.name, job_id), 0))

    def now(self) -> datetime:
        return self._surroundings.now()

    def _made(self, queue: JobType[P, R], created: CreatedJob) -> JobRef[R]:
        live = self._connected()
        return JobRef(
            created.address,
            queue,
            live.connection,
            live.events,
            self._surroundings,
            since=created.sequence,
        )

    def _chosen(self, wanted: Workers) -> list[Handler]:
        """A wish that cannot be met is an error before anything starts."""
        if wanted.concurrency is not None and wanted.concurrency < 1:
            raise DeclarationError(f"concurrency must be at least 1, is {wanted.concurrency}")
        for queue in wanted.queues or ():
            if queue not in self.contract.queues:
                known = ", ".join(sorted(self.contract.queues))
                raise DeclarationError(
                    f"service {self.name!r} has no queue {queue!r}, only {known}"
                )
            if queue not in self._handlers:
                raise DeclarationError(f"queue {queue!r} has no handler, so no worker can run it")
        return [h for h in self._handlers if wanted.queues is None or h.queue.name in wanted.queues]

    async def _prepare(
        self, connection: Connection, replicas: int | None, detected: int
    ) -> HostDoors:
        features = await detect_features(connection)
        for missing in features.lacks():
            log.warning("this server lacks %s", missing, extra={"version": features.version})
        try:
            await provision(connection, Topology(features, replicas, detected))
        except NotPermitted as denied:
            log.info("not permitted to provision, so an operator has", extra={"why": str(denied)})
            await require_log(connection, self.name)
        return HostDoors(
            connection,
            EventLog(connection, features),
            Presence(connection, features),
            Telemetry(),
            self._surroundings,
        )

    def _wire(self, doors: HostDoors, handlers: list[Handler], wanted: Workers) -> _Connected:
        host = None
        if handlers:
            host = WorkerHost(self.name, handlers, doors, concurrency=wanted.concurrency)
        producer = Producer(self.name, doors.events, doors.telemetry, self._surroundings)
        return _Connected(doors.connection, doors.events, producer, host, asyncio.Event())

    def _connected(self) -> _Connected:
        if self._live is None:
            raise NotConnected(self.name)
        return self._live

    def _begin_stop(self, grace: float) -> None:
        """A second signal of any kind ends the patience."""
        live = self._connected()
        if live.stopped.is_set():
            grace = 0
        # Before the event: wait() stops with a grace of its own, and the first to ask decides.
        self._stopping = asyncio.get_running_loop().create_task(self._stop(grace))
        live.stopped.set()

    async def _stop(self, grace: float) -> None:
        live = self._live
        if live is None:
            return
        live.stopped.set()
        if live.host is not None:
            await live.host.stop(grace)
