"""An encoded event, ready to be published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.jetstream.client.prepared_message import PreparedMessage
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.identity import JobAddress


class PreparedEvent(PreparedMessage, frozen=True):
    """One event that can be sent repeatedly, with the same bytes, guard and id."""

    event_id: str
    job: JobAddress
    guard: int

    @property
    def parts(self) -> tuple[PreparedEvent, ...]:
        return (self,)

    async def publish_once(self, connection: Connection, timeout: float) -> int | Refused | None:
        """Returns the sequence, or the refusal, or None if the event must be sent again."""
        return read_pub_ack(self.subject, await self.send(connection, timeout))
