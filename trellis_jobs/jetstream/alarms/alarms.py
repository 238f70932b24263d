"""Sets alarms: messages that the server keeps until their time, and publishes then (design D28).

An alarm may be replaced by an earlier one only, so that it is never later than the log says: two
processes that create the same job at the same time set the earlier alarm of both. Servers without
message schedules (before 2.12) publish an alarm at once, and the worker process that receives it
has it delivered again when it is due.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import DUE_CONSUMER, alarms_stream
from trellis_jobs.errors import (
    InfrastructureError,
    JobsError,
    NotConfirmed,
    RequestRefused,
    StreamMissing,
)
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.fast_batch import BulkAppender
from trellis_jobs.jetstream.client.prepared_message import PreparedMessage
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.jetstream.client.timeouts import ACK_TIMEOUT, FAILOVER_TIMEOUT, retry_delay
from trellis_jobs.model import subjects
from trellis_jobs.model.alarms import LEAD, alarm_time
from trellis_jobs.model.settlement import Ack, Nak
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.model.settlement import Answer
    from trellis_jobs.model.subjects import AlarmAddress

log = logging.getLogger(__name__)

_TIMEOUT: Final = 30.0
# After this time a stream without message schedules may have got them.
_NO_SCHEDULES_COOLDOWN: Final = 60.0
# After this many seconds without a stream, the server is asked whether there is one.
_MISSING_AFTER: Final = 2.0
_INFO_TIMEOUT: Final = 1.0
# A message that replaces all others of its subject, and that the server removes after a second.
_REMOVAL: Final = h.block({h.ROLLUP: "sub", h.TTL: "1s"})


class Alarms:
    """Sets alarms of any service that the credentials permit; `now` is the server's time.

    Alarms that are not kept by the server are redelivered until their time has come.
    """

    def __init__(
        self, connection: Connection, features: Features, now: Callable[[], datetime]
    ) -> None:
        self._connection = connection
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._has_schedules = features.message_schedules
        self._no_schedules_until = 0.0
        self._bulk: BulkAppender[PreparedMessage] = BulkAppender(
            connection, features, self._publish_with_retry
        )

    @property
    def are_kept_by_server(self) -> bool:
        """False if the server or the stream has no message schedules: alarms come at once."""
        return self._has_schedules and self._loop.time() >= self._no_schedules_until

    async def set(
        self,
        address: AlarmAddress,
        at: datetime,
        *,
        timeout: float = _TIMEOUT,
        started_at: float | None = None,
    ) -> None:
        """Returns when the server has stored an alarm for this time or an earlier one.

        `started_at` is when the timeout began, by the clock of the event loop. Raises
        StreamMissing, StreamFull and NotConfirmed. Repeating a call is harmless.
        """
        began_at = self._loop.time() if started_at is None else started_at
        await self._set(address, at, timeout, began_at)

    async def set_many(
        self, alarms: Mapping[AlarmAddress, datetime], *, timeout: float = _TIMEOUT
    ) -> dict[AlarmAddress, JobsError]:
        """Sets many alarms at once, and returns the errors of those that were not set."""
        answers = await self._publish_all(alarms, timeout)
        disabled = [each for each, answer in answers.items() if _is_without_schedules(answer)]
        if disabled:
            self._redeliver_alarms_of(disabled[0].service)
            answers |= await self._publish_all({each: alarms[each] for each in disabled}, timeout)
        failed = {each: answer for each, answer in answers.items() if isinstance(answer, JobsError)}
        started_at = self._loop.time()
        for address, answer in answers.items():
            if isinstance(answer, Refused):
                try:
                    await self._set(address, alarms[address], timeout, started_at)
                except JobsError as error:
                    failed[address] = error
        return failed

    async def _publish_all(
        self, alarms: Mapping[AlarmAddress, datetime], timeout: float
    ) -> dict[AlarmAddress, int | Refused | JobsError]:
        prepared = [self._prepare(address, at, guard=0) for address, at in alarms.items()]
        return dict(zip(alarms, await self._bulk.append(prepared, timeout), strict=True))

    async def set_again(self, address: AlarmAddress, at: datetime, *, sequence: int) -> Answer:
        """Sets an alarm that came too early for another time. Returns how to answer it.

        Without message schedules, the alarm itself is redelivered at that time, if no newer alarm
        for the same purpose has come. `sequence` is that of the alarm.
        """
        if self.are_kept_by_server:
            await self.set(address, at)
            return Ack()
        if await self.has_newer(address, sequence=sequence):
            return Ack()
        return Nak(at - self._now() - LEAD)

    async def has_newer(self, address: AlarmAddress, *, sequence: int) -> bool:
        """Whether a newer alarm for the same purpose has come and is not acknowledged yet."""
        found = await self._newest(address, subjects.due(address))
        return found is not None and api.sequence_of(found) > sequence

    async def ring(self, address: AlarmAddress) -> bool:
        """Publishes the alarm now; returns False if it has come and no process has taken it yet."""
        block = h.block({h.EXPECTED_SEQUENCE: "0"})
        message = PreparedMessage(subjects.due(address), b"", block)
        answer = await self._publish_with_retry(message, _TIMEOUT, self._loop.time())
        return not isinstance(answer, Refused)

    def remove(self, addresses: Iterable[AlarmAddress]) -> None:
        """Removes alarms that are not needed any more, without waiting for a reply.

        An alarm that stays is harmless: the worker process that receives it finds nothing to do.
        """
        if not self.are_kept_by_server:
            return
        for address in addresses:
            self._connection.publish_nowait(subjects.alarm(address), b"", block=_REMOVAL)

    async def _set(
        self, address: AlarmAddress, at: datetime, timeout: float, started_at: float
    ) -> None:
        guard, refusals = 0, 0
        while True:
            message = self._prepare(address, at, guard)
            try:
                answer = await self._publish_with_retry(message, timeout, started_at)
            except RequestRefused as refusal:
                if not _is_without_schedules(refusal):
                    raise
                self._redeliver_alarms_of(address.service)
                continue
            if not isinstance(answer, Refused):
                return
            refusals += 1
            known = await self._read(address)
            if known is None or known.sequence <= guard:
                # The replica that replied is behind, or the alarm has come.
                await asyncio.sleep(retry_delay(refusals))
            guard = 0 if known is None else known.sequence
            if known is not None and known.at is not None and known.at < at - LEAD:
                # An earlier alarm is kept, but written again: it may have been set long ago, and
                # would be dropped if it came before the event that is appended next.
                at = known.at + LEAD

    def _redeliver_alarms_of(self, service: str) -> None:
        """For a stream from before 2.12, until an operator has changed it."""
        if self.are_kept_by_server:
            log.warning(
                "stream %s has no message schedules, so alarms are redelivered until they are "
                "due: run `trellis-jobs infra apply` with the service",
                alarms_stream(service),
            )
        self._no_schedules_until = self._loop.time() + _NO_SCHEDULES_COOLDOWN

    def _prepare(self, address: AlarmAddress, at: datetime, guard: int) -> PreparedMessage:
        now = self._now()
        moment = alarm_time(at, now) if self.are_kept_by_server else None
        headers = {h.ALARM_SET_AT: _text(now)}
        if moment is None:
            headers[h.ALARM_AT] = _text(at)
            return PreparedMessage(subjects.due(address), b"", h.block(headers))
        headers |= {
            h.SCHEDULE: f"@at {_text(moment)}",
            h.SCHEDULE_TARGET: subjects.due(address),
            h.EXPECTED_SEQUENCE: str(guard),
        }
        return PreparedMessage(subjects.alarm(address), b"", h.block(headers))

    async def _read(self, address: AlarmAddress) -> _KnownAlarm | None:
        """Reads the alarm that is set, from any replica: every write is guarded."""
        found = await self._newest(address, subjects.alarm(address))
        if found is None:
            return None
        return _KnownAlarm(api.sequence_of(found), _moment((found.headers or {}).get(h.SCHEDULE)))

    async def _newest(self, address: AlarmAddress, subject: str) -> Message | None:
        try:
            found = await api.newest(self._connection, alarms_stream(address.service), subject)
        except (ConnectionLost, NoResponders) as error:
            raise NotConfirmed(f"a read of the alarm of {address.name}", api.TIMEOUT) from error
        return found if h.STORED_SEQUENCE in found.headers else None

    async def _publish_with_retry(
        self, message: PreparedMessage, timeout: float, started_at: float
    ) -> int | Refused:
        """A repeated publish may be refused because of its own first copy, which is as good."""
        try:
            async with asyncio.timeout_at(started_at + timeout):
                return await self._publish_until_stored(message)
        except TimeoutError:
            raise NotConfirmed(message.subject, timeout) from None

    async def _publish_until_stored(self, message: PreparedMessage) -> int | Refused:
        attempts, began = 0, self._loop.time()
        service = message.subject.split(".")[2]
        stream = alarms_stream(service)
        while True:
            await self._connection.wait_until_connected()
            try:
                reply = await message.send(self._connection, ACK_TIMEOUT)
                answer = read_pub_ack(message.subject, reply, stream)
                if answer is not None:
                    return answer
            except NoResponders:
                if await self._is_missing(stream, self._loop.time() - began):
                    raise StreamMissing(stream, missing_remedy(service)) from None
            except ConnectionLost as error:
                if self._connection.is_closed:
                    raise NotConfirmed(message.subject, None) from error
            await asyncio.sleep(retry_delay(attempts))
            attempts += 1

    async def _is_missing(self, stream: str, waited: float) -> bool:
        """A stream without a leader looks like a missing one; the server knows the difference."""
        if waited < _MISSING_AFTER:
            return False
        with suppress(InfrastructureError, NotConfirmed, TimeoutError):
            try:
                async with asyncio.timeout(_INFO_TIMEOUT):
                    await api.request(self._connection, f"CONSUMER.INFO.{stream}.{DUE_CONSUMER}")
            except StreamMissing:
                return True
        return waited > FAILOVER_TIMEOUT


def missing_remedy(service: str) -> str:
    return (
        f"create it with the code of service {service}: `trellis-jobs infra apply MODULE:SERVICE`, "
        "or start a worker of it that may provision"
    )


class _KnownAlarm:
    """An alarm that is set; `at` is None if its time cannot be read."""

    __slots__ = ("at", "sequence")

    def __init__(self, sequence: int, at: datetime | None) -> None:
        self.sequence = sequence
        self.at = at


def _is_without_schedules(answer: int | Refused | JobsError) -> bool:
    return isinstance(answer, RequestRefused) and answer.code == api.SCHEDULES_DISABLED


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(schedule: str | None) -> datetime | None:
    """Any client of the service can set an alarm, so the text may be anything."""
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat((schedule or "").removeprefix("@at "))
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    return None
