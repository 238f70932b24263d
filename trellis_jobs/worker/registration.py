"""Keeps the record of this worker process in JOBS_CONTROL, and follows what others write into it.

The worker registers before its first pull. From then on the lease thread writes a beat in every
interval, so a handler that blocks the event loop does not make the worker look dead. The server
refuses a beat if another process has written the record: then it has a directive or a verdict
(design D26). A failure never stops the worker: it runs jobs without a record, too.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from trellis_jobs.contract.topology import CONTROL
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pub_ack import Refused
from trellis_jobs.jetstream.control.worker_records import UnreadableWorker
from trellis_jobs.model import subjects
from trellis_jobs.model.values import replace
from trellis_jobs.model.worker_record import (
    AfterRefusal,
    Continue,
    DeclaredDead,
    Directive,
    RegisterAgain,
    WorkerProfile,
    WorkerRecord,
    WorkerStatus,
    after_refusal,
    next_beat,
)
from trellis_jobs.model.worker_states import WorkerState
from trellis_jobs.wire.headers import republished_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.control.worker_records import WorkerRecords
    from trellis_jobs.worker.identity import WorkerIdentity

log = logging.getLogger(__name__)

# Seconds that a start waits for its registration, and a stop for its deregistration.
_REGISTER_TIMEOUT: Final = 2.0
_DEREGISTER_TIMEOUT: Final = 4.0
_BEAT_TIMEOUT: Final = 5.0
_NO_REPLY: Final = f"the server did not reply in time (does the stream {CONTROL} exist?)"
_FAILURES: Final = (JobsError, ConnectionLost, TimeoutError)


class RegisteredWorker(Protocol):
    """The worker whose record is kept. The lease thread calls these methods."""

    def status(self) -> WorkerStatus: ...

    def follow_directive(self, directive: Directive) -> None: ...

    def handle_death(self, dead: DeclaredDead, instance: str) -> None:
        """`instance` is the id under which the worker was declared dead."""


class WorkerRegistration:
    def __init__(
        self,
        worker: RegisteredWorker,
        profile: WorkerProfile,
        records: WorkerRecords,
        identity: WorkerIdentity,
        monotonic: Callable[[], float],
    ) -> None:
        self._worker = worker
        self._records = records
        self._identity = identity
        self._monotonic = monotonic
        self._record = WorkerRecord(profile=profile)
        self._revision = 0
        self._stored_at = monotonic()
        self._is_failing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake_up = asyncio.Event()
        self._hinted_revision = 0
        self._is_waiting = False

    @property
    def interval(self) -> float:
        return self._record.profile.interval.total_seconds()

    async def register(self) -> None:
        """Writes the record before the worker pulls its first job."""
        with self._reporting_failures():
            async with asyncio.timeout(_REGISTER_TIMEOUT):
                await self._beat(self._records)

    def wake(self) -> None:
        """Writes the next beat now, because the worker's state has changed."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the thread may have just ended
                self._loop.call_soon_threadsafe(self._wake_up.set)

    async def run(self, connection: Connection) -> None:
        """Writes beats until it is cancelled. The lease thread calls it for each connection."""
        self._loop = asyncio.get_running_loop()
        records = self._records.over(connection)
        while True:
            instance = self._identity.instance
            subject = subjects.worker_hint(self._record.profile.service, instance)
            subscription = await connection.subscribe(subject, self._receive_hint)
            try:
                while self._identity.instance == instance:
                    with self._reporting_failures():
                        async with asyncio.timeout(_BEAT_TIMEOUT):
                            await self._beat(records)
                    await self._wait()
            finally:
                await connection.unsubscribe(subscription)

    async def finish(self, connection: Connection) -> None:
        """Deregisters the worker after its last job."""
        with self._reporting_failures():
            async with asyncio.timeout(_DEREGISTER_TIMEOUT):
                stopped = WorkerStatus(WorkerState.TERMINATED)
                await self._write(self._records.over(connection), stopped)

    async def _beat(self, records: WorkerRecords) -> None:
        await self._write(records, self._worker.status())

    async def _write(self, records: WorkerRecords, status: WorkerStatus) -> None:
        """Writes the record, again whenever another process has written it meanwhile."""
        while True:
            sent_at = self._monotonic()
            record = next_beat(self._record, status)
            written = await records.write(record, self._revision)
            if not isinstance(written, Refused):
                self._record, self._revision, self._stored_at = record, written, sent_at
                return
            self._apply(await self._after_conflict(records, written))

    async def _after_conflict(self, records: WorkerRecords, conflict: Refused) -> AfterRefusal:
        found = await records.read_after(conflict, self._record)
        if isinstance(found, UnreadableWorker):
            return Continue(found.revision)
        silent_for = timedelta(seconds=self._monotonic() - self._stored_at)
        stored = None if found is None else (found.record, found.revision)
        return after_refusal(self._record, stored, silent_for)

    def _apply(self, decision: AfterRefusal) -> None:
        match decision:
            case Continue(revision, directive):
                self._revision = revision
                if directive is not None:
                    self._record = replace(self._record, directive=directive)
                    self._worker.follow_directive(directive)
            case RegisterAgain():
                self._revision = 0
            case DeclaredDead():
                self._start_afresh(decision)

    def _start_afresh(self, dead: DeclaredDead) -> None:
        former = self._identity.instance
        self._identity.renew()
        profile = replace(self._record.profile, instance=self._identity.instance)
        self._record, self._revision = WorkerRecord(profile=profile), 0
        self._worker.handle_death(dead, former)

    def _receive_hint(self, message: Message) -> None:
        """The record was stored. It is only a hint: the next beat finds out what is in it.

        The hint of a beat may arrive before the reply to it, so `_wait` compares the revisions.
        """
        revision = republished_sequence(message.headers) or 0
        self._hinted_revision = max(self._hinted_revision, revision)
        if self._is_waiting and self._is_outdated():
            self._wake_up.set()

    def _is_outdated(self) -> bool:
        return self._hinted_revision > self._revision

    @contextmanager
    def _reporting_failures(self) -> Iterator[None]:
        """Logs the first failure and the first success after it. The worker continues anyway."""
        try:
            yield
        except _FAILURES as error:
            if not self._is_failing:
                log.warning(
                    "the record of this worker was not written: %s. It runs jobs as before, but "
                    "it cannot be directed, and if it dies, its jobs wait for their leases",
                    str(error) or _NO_REPLY,
                    extra={"instance": self._identity.instance, "error": str(error)},
                )
            self._is_failing = True
        else:
            if self._is_failing:
                log.info(
                    "the record of this worker is written again: instance %s",
                    self._identity.instance,
                    extra={"instance": self._identity.instance},
                )
            self._is_failing = False

    async def _wait(self) -> None:
        if self._is_outdated():
            self._wake_up.set()
        self._is_waiting = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.interval):
                await self._wake_up.wait()
        self._is_waiting = False
        self._wake_up.clear()
        self._hinted_revision = 0  # a hint, which may be forged, causes one beat
