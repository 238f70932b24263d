"""What a service's queues stand on: its handlers, and once it is connected its producer and log."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from trellis_jobs.contract.topology import LOG, WORK, consumer_of
from trellis_jobs.errors import (
    DeclarationError,
    KeyUnresolvable,
    NotConnected,
    PayloadInvalid,
)
from trellis_jobs.jetstream.client.own_loop import require_running
from trellis_jobs.jetstream.client.server_clock import CorrectedClock
from trellis_jobs.model.identity import JobAddress, check_token_argument
from trellis_jobs.producer.job_ref import JobAccess, JobRef
from trellis_jobs.producer.submission import CreatedJob, Request
from trellis_jobs.service.outcomes import Accepted, Replaced
from trellis_jobs.service.resources import Resources
from trellis_jobs.worker.handler_check import check_handler
from trellis_jobs.worker.handlers import Handlers
from trellis_jobs.worker.sync_handlers import as_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.startup import Startup
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.producer.submission import Producer
    from trellis_jobs.worker.host import WorkerHost

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Connected:
    """The parts of a service that exist while it is connected; no host: it only produces."""

    connection: Connection
    events: EventLog
    keys: Mapping[str, KeyCoordinator]
    producer: Producer
    host: WorkerHost | None
    stopped: asyncio.Event


class Runtime:
    """`bound`: the queues that go by other names on the server, by the names they declare."""

    def __init__(
        self,
        service: str,
        environment: Environment,
        bound: Mapping[str, JobType[Any, Any]] | None = None,
        declared: Iterable[JobType[Any, Any]] = (),
    ) -> None:
        self.service = service
        self.environment = environment
        self._bound = bound or {}
        self._declared = tuple(declared)
        self.handlers = Handlers()
        self.resources = Resources(service)
        self.live: Connected | None = None
        self.clock: CorrectedClock | None = None
        self._is_taken = False
        self.is_inline = False

    def bound(self, declared: JobType[P, R]) -> JobType[P, R]:
        return self._bound.get(declared.name, declared)

    @asynccontextmanager
    async def connection(
        self, access: ConnectOptions, startup: Startup
    ) -> AsyncIterator[Connection]:
        with self.taken():
            connection = await startup.open(access, name=f"{self.service} jobs")
            try:
                async with self._corrected_by(connection):
                    yield connection
            finally:
                self.live = None
                await connection.close()

    @asynccontextmanager
    async def _corrected_by(self, connection: Connection) -> AsyncIterator[None]:
        """Times of jobs are the server's while we are connected, if the clocks differ notably."""
        own = self.environment
        clock = self.clock = CorrectedClock(own.now, self._calls_with_time())
        self.environment = replace(own, now=clock.now, clock_ahead=clock.ahead)
        measuring = asyncio.create_task(clock.keep_measuring(connection))
        try:
            yield
        finally:
            measuring.cancel()
            self.environment, self.clock = own, None

    def _calls_with_time(self) -> list[str]:
        """A service may ask for its own consumers, and perhaps for nothing else (permissions).

        Those of queues without a handler here come last: their consumers may not exist.
        """
        handled = [handler.queue for handler in self.handlers]
        names = {queue.name for queue in handled}
        others = [queue for queue in self._declared if queue.name not in names]
        first, last = (
            [f"CONSUMER.INFO.{WORK}.{consumer_of(self.service, queue)}" for queue in queues]
            for queues in (handled, others)
        )
        return [*first, f"STREAM.INFO.{LOG}", *last]

    @contextmanager
    def taken(self) -> Iterator[None]:
        """By one at a time: from before the first await until after the last."""
        if self._is_taken:
            raise DeclarationError(f"service {self.service!r} is connected already")
        self._is_taken = True
        try:
            yield
        finally:
            self._is_taken = False

    @contextmanager
    def inlined(self) -> Iterator[None]:
        """While this lasts, connecting connects to nothing: a test provides the runtime."""
        self.is_inline = True
        try:
            yield
        finally:
            self.is_inline = False

    @property
    def connected(self) -> Connected:
        if self.live is None:
            raise NotConnected(self.service)
        return self.live

    def connected_here(self) -> Connected:
        """Raises WrongEventLoop on any loop but the one that the service connected on."""
        live = self.connected
        require_running(live.connection.loop)
        return live

    def register(self, queue: JobType[Any, Any], handler: Callable[..., Any]) -> None:
        self.require_unconnected(f"queue {queue.name!r}: handlers must be registered")
        check_handler(queue.name, queue.payload.type, handler)
        name = getattr(handler, "__qualname__", repr(handler))
        self.handlers.register(queue, as_async(handler), name)

    def require_unconnected(self, what: str) -> None:
        if self.live is not None:
            raise DeclarationError(f"{what} before the service connects")

    async def create(
        self, queue: JobType[P, R], payload: P, *, job_id: str | None, deadline: datetime | None
    ) -> JobRef[R]:
        return (await self.submit(queue, payload, job_id=job_id, deadline=deadline)).ref

    async def submit(
        self, queue: JobType[P, R], payload: P, *, job_id: str | None, deadline: datetime | None
    ) -> Accepted[JobRef[R]] | Replaced[JobRef[R]]:
        """Raises NotAdmitted when there is no new job."""
        producer = self.connected_here().producer
        request = producer.request(queue, payload, job_id=job_id, deadline=deadline)
        created = await producer.create(request)
        ref = self._ref(queue, created)
        return Accepted(ref) if created.replaced is None else Replaced(ref, created.replaced)

    async def create_many(
        self, queue: JobType[P, R], payloads: Iterable[P], *, deadline: datetime | None
    ) -> list[JobRef[R]]:
        producer = self.connected_here().producer
        requests = list(_requests(producer, queue, payloads, deadline))
        created, access = await producer.create_many(requests), self._access(queue)
        return [JobRef(each.address, queue, access, since=each.sequence) for each in created]

    def ref(self, queue: JobType[Any, R], job_id: str, *, since: int = 0) -> JobRef[R]:
        check_token_argument("job id", job_id)
        return self._ref(queue, CreatedJob(JobAddress(self.service, queue.name, job_id), since))

    def now(self) -> datetime:
        return self.environment.now()

    def _ref(self, queue: JobType[Any, R], created: CreatedJob) -> JobRef[R]:
        return JobRef(created.address, queue, self._access(queue), since=created.sequence)

    def _access(self, queue: JobType[Any, Any]) -> JobAccess:
        live = self.connected
        return JobAccess(live.connection, live.events, self.environment, live.keys.get(queue.name))


def _requests(
    producer: Producer, queue: JobType[P, Any], payloads: Iterable[P], deadline: datetime | None
) -> Iterator[Request]:
    made = 0
    try:
        for payload in payloads:
            yield producer.request(queue, payload, deadline=deadline)
            made += 1
    except (PayloadInvalid, KeyUnresolvable) as refused:
        raise refused.of_item(made) from refused
