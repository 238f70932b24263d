"""An encoded event, ready to be published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.model.identity import JobAddress


class PreparedEvent(Value, frozen=True):
    """One event that can be sent repeatedly, with the same bytes, guard and id.

    `block` is the encoded header block.
    """

    subject: str
    data: bytes
    block: bytes
    event_id: str
    job: JobAddress
    guard: int

    @property
    def parts(self) -> tuple[PreparedEvent, ...]:
        return (self,)

    @property
    def size(self) -> int:
        """The size that the server compares with max_payload."""
        return len(self.block) + len(self.data)

    async def publish_once(self, connection: Connection, timeout: float) -> int | Refused | None:
        """Returns the sequence, or the refusal, or None if the event must be sent again."""
        return read_pub_ack(self.subject, await self.send(connection, timeout))

    def send(self, connection: Connection, timeout: float) -> Awaitable[Message]:
        return connection.start_request(self.subject, self.data, self.block, timeout)
