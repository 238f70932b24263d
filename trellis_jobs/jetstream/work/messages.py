"""Single messages of the work queue, for maintenance."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import ENQUEUING, LOG, WORK
from trellis_jobs.errors import NotConfirmed, StreamMissing
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.model import subjects
from trellis_jobs.model.attempts import work_identity
from trellis_jobs.model.events import Begun
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.stored_message import StoredMessage
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

_SERVER_HEADER_PREFIX: Final = "nats-"
# The server lists subjects in pages; a page behind the last one contains only their number.
_OFFSET_BEYOND_ALL_SUBJECTS: Final = 2**31


@dataclass(frozen=True, slots=True)
class WorkMessage:
    """A message for one run of one job; `work` is its permanent identity."""

    job: JobAddress
    run: int
    begun: Begun
    sequence: int
    work: str
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class WorkExtent:
    """`messages` are in the queue; `not_copied` are in the log but not yet in the queue."""

    messages: int
    not_copied: int = 0


@dataclass(frozen=True, slots=True)
class InvalidWorkMessage:
    """A message of the work queue that does not identify a job to run."""

    sequence: int
    stored_at: datetime
    reason: str


class WorkMessages:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def exists(self, job: JobAddress) -> bool:
        """Returns whether the queue has a message for any run of the job."""
        return await self.sequence_of(job) is not None

    async def sequence_of(self, job: JobAddress) -> int | None:
        """Returns the sequence of the newest message for any run of the job."""
        found = await stored_message.newest(self._connection, WORK, subjects.work(job))
        return None if found is None else found.sequence

    async def extent(self) -> WorkExtent:
        info = await api.request(self._connection, f"STREAM.INFO.{WORK}")
        lags = [int(source.get("lag", 0)) for source in info.get("sources") or []]
        return WorkExtent(int(info["state"]["messages"]), sum(lags))

    async def count_jobs(self, subject: str) -> int:
        """Counts the jobs with a message under a subject, delivered or not."""
        query = {"subjects_filter": subject, "offset": _OFFSET_BEYOND_ALL_SUBJECTS}
        info = await api.request(self._connection, f"STREAM.INFO.{WORK}", query)
        return int(info.get("total", 0))

    async def at(self, sequence: int) -> WorkMessage | InvalidWorkMessage | None:
        found = await stored_message.at_sequence(self._connection, WORK, sequence)
        return None if found is None else _read(found)

    async def delivered(
        self, consumer: QueueConsumer, *, after: int, limit: int
    ) -> list[WorkMessage | InvalidWorkMessage]:
        """Returns a page of the messages that the consumer has delivered and that still exist."""
        page: list[WorkMessage | InvalidWorkMessage] = []
        while len(page) < limit:
            found = await stored_message.next_from(
                self._connection, WORK, consumer.subject, after + 1
            )
            if found is None or found.sequence > consumer.delivered:
                break
            page.append(_read(found))
            after = found.sequence
        return page

    async def delete(self, message: WorkMessage | InvalidWorkMessage) -> None:
        await stored_message.delete(self._connection, WORK, message.sequence)

    async def put_back(self, job: JobAddress, run: int) -> bool:
        """Enqueue the run again from its first event; returns False if the job has a message.

        The server guards the write, so that any number of processes may try (design D18).
        """
        first = await stored_message.at_sequence(self._connection, LOG, run)
        parsed = None if first is None else subjects.parse(first.subject)
        if (
            first is None
            or not isinstance(parsed, subjects.LifecycleSubject)
            or parsed.job != job
            or parsed.kind not in ENQUEUING
        ):
            log.error(
                "cannot enqueue job %s again: the first event of its run, %s, is not in the log",
                job.job_id,
                run,
                extra={"job": job.job_id, "run": run},
            )
            return False
        headers = {
            name: value
            for name, value in first.headers.items()
            if not name.lower().startswith(_SERVER_HEADER_PREFIX)
        }
        headers |= {h.RUN_SEQUENCE: str(run), h.EXPECTED_SEQUENCE: "0"}
        return await self._publish(subjects.work(job), first.data, headers)

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> bool:
        """Returns False when the server cannot store it now; the next maintenance pass retries."""
        try:
            message = await self._connection.request(
                subject, data, headers=headers, timeout=api.TIMEOUT
            )
        except NoResponders:
            raise StreamMissing(WORK) from None
        except ConnectionLost as error:
            raise NotConfirmed(subject, api.TIMEOUT) from error
        answer = read_pub_ack(subject, message, WORK)
        return not isinstance(answer, Refused) and answer is not None


def _read(stored: StoredMessage) -> WorkMessage | InvalidWorkMessage:
    parsed, run = subjects.parse(stored.subject), h.source_sequence(stored.headers)
    if not isinstance(parsed, subjects.WorkSubject) or run is None:
        return InvalidWorkMessage(
            stored.sequence, stored.stored_at, "it names no job, or no event of the log"
        )
    entry = wire.decode(stored.data, expected=parsed.job, sequence=run)
    if isinstance(entry, Undecodable):
        return InvalidWorkMessage(stored.sequence, stored.stored_at, entry.reason)
    if not isinstance(entry.event, Begun):
        reason = f"a {entry.event.kind} event does not begin a run"
        return InvalidWorkMessage(stored.sequence, stored.stored_at, reason)
    identity = work_identity(stored.sequence, stored.stored_ns)
    return WorkMessage(parsed.job, run, entry.event, stored.sequence, identity, stored.stored_at)
