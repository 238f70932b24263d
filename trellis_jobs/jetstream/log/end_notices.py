"""Hints that a job of a queue may have ended: core NATS copies of its final events.

A copy is only a hint, because the stream may have refused the event (design D22). The receiver
must read the log before it acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model import subjects
from trellis_jobs.model.reducer import ENDED_FROM_OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.core_client import Subscription
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.model.identity import JobAddress


class EndNotices:
    def __init__(
        self, connection: Connection, service: str, job_type: str, hint: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._subjects = [subjects.of_kind(service, job_type, kind) for kind in ENDED_FROM_OUTSIDE]
        self._hint = hint
        self._subscriptions: list[Subscription] = []

    async def open(self) -> None:
        for subject in self._subjects:
            self._subscriptions.append(await self._connection.subscribe(subject, self._receive))

    async def close(self) -> None:
        for subscription in self._subscriptions:
            await self._connection.unsubscribe(subscription)

    def _receive(self, message: Message) -> None:
        parsed = subjects.parse(message.subject)
        if isinstance(parsed, subjects.LifecycleSubject):
            self._hint(parsed.job.job_id)


async def watch_job(
    connection: Connection, job: JobAddress, hint: Callable[[], None]
) -> Subscription:
    """Call `hint` for every core NATS copy of an event of this job."""
    return await connection.subscribe(subjects.history(job), lambda _: hint())
