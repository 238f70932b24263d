"""What the queues of a service use: its handlers and, while connected, its producer and log."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from trellis_jobs.contract.topology import LOG, WORK, consumer_of
from trellis_jobs.errors import (
    DeclarationError,
    KeyUnresolvable,
    NotConnected,
    PayloadInvalid,
)
from trellis_jobs.jetstream.client.own_loop import require_running
from trellis_jobs.jetstream.client.server_clock import CorrectedClock
from trellis_jobs.model.clock_offset import ServerTime
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
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.startup import Startup
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.jetstream.schedules.schedules import Schedules
    from trellis_jobs.producer.submission import Producer
    from trellis_jobs.producer.try_options import TryOptions
    from trellis_jobs.worker.host import WorkerHost

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Connected:
    """The parts of a connected service. `host` is None if it runs no workers."""

    connection: Connection
    events: EventLog
    keys: Mapping[str, KeyCoordinator]
    alarms: Alarms
    producer: Producer
    host: WorkerHost | None
    stopped: asyncio.Event

    @cached_property
    def schedules(self) -> Schedules:
        """One for all uses of this connection: it knows what this process has written."""
        from trellis_jobs.jetstream.schedules import records, schedules  # noqa: PLC0415 - few need it

        supports_ttl = self.events.features.message_ttl
        stored = records.ScheduleRecords(self.connection, supports_ttl=supports_ttl)
        return schedules.Schedules(stored, self.alarms)


class Runtime:
    """`bound` has the queues with another name on the server, by their declared name."""

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
        self._is_in_use = False
        self.is_inline = False

    def bound(self, declared: JobType[P, R]) -> JobType[P, R]:
        return self._bound.get(declared.name, declared)

    @asynccontextmanager
    async def connection(
        self, access: ConnectOptions, startup: Startup
    ) -> AsyncIterator[Connection]:
        with self.exclusive():
            connection = await startup.open(access, name=f"{self.service} jobs")
            try:
                async with self._corrected_clock(connection):
                    yield connection
            finally:
                self.live = None
                await connection.close()

    @asynccontextmanager
    async def _corrected_clock(self, connection: Connection) -> AsyncIterator[None]:
        """Uses the server's time for jobs while connected, if the machine's clock is wrong."""
        own = self.environment
        timed = replace(own, server_time=ServerTime())
        clock = CorrectedClock(own.now, self._time_requests(), timed.observe_reply)
        self.clock = clock
        self.environment = replace(timed, now=clock.now, clock_ahead=clock.ahead)
        measuring = asyncio.create_task(clock.keep_measuring(connection))
        try:
            yield
        finally:
            measuring.cancel()
            self.environment, self.clock = own, None

    def _time_requests(self) -> list[str]:
        """The API requests whose answers contain the server's time, in the order to try them.

        By its permissions a service may request its own consumers, and perhaps nothing else. Those
        of queues without a handler here come last, because they may not exist.
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
    def exclusive(self) -> Iterator[None]:
        """Refuses a second connect() from before the first await until after the last."""
        if self._is_in_use:
            raise DeclarationError(f"service {self.service!r} is already connected")
        self._is_in_use = True
        try:
            yield
        finally:
            self._is_in_use = False

    @contextmanager
    def inlined(self) -> Iterator[None]:
        """Makes connect() do nothing within this block, because a test provides the runtime."""
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
        """Raises WrongEventLoop if the service was connected on another event loop."""
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
        self,
        queue: JobType[P, R],
        payload: P,
        *,
        job_id: str | None,
        deadline: datetime | None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> JobRef[R]:
        submitted = await self.submit(
            queue, payload, job_id=job_id, deadline=deadline, run_at=run_at, **options
        )
        return submitted.ref

    async def submit(
        self,
        queue: JobType[P, R],
        payload: P,
        *,
        job_id: str | None,
        deadline: datetime | None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> Accepted[JobRef[R]] | Replaced[JobRef[R]]:
        """Raises NotAdmitted if no job was created."""
        producer = self.connected_here().producer
        request = producer.request(
            queue, payload, job_id=job_id, deadline=deadline, run_at=run_at, **options
        )
        created = await producer.create(request)
        ref = self._ref(queue, created)
        return Accepted(ref) if created.replaced is None else Replaced(ref, created.replaced)

    async def create_many(
        self,
        queue: JobType[P, R],
        payloads: Iterable[P],
        *,
        deadline: datetime | None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> list[JobRef[R]]:
        producer = self.connected_here().producer
        request = partial(producer.request, queue, deadline=deadline, run_at=run_at, **options)
        requests = list(_requests(request, payloads))
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
        keys = live.keys.get(queue.name)
        return JobAccess(live.connection, live.events, self.environment, keys, live.alarms)


def _requests(request: Callable[[P], Request], payloads: Iterable[P]) -> Iterator[Request]:
    made = 0
    try:
        for payload in payloads:
            yield request(payload)
            made += 1
    except (PayloadInvalid, KeyUnresolvable) as refused:
        raise refused.of_item(made) from refused
