"""An encoded message, ready to be published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message


class PreparedMessage(Value, frozen=True):
    """One message that can be sent repeatedly, with the same bytes. `block` has its headers."""

    subject: str
    data: bytes
    block: bytes

    @property
    def size(self) -> int:
        """The size that the server compares with max_payload."""
        return len(self.block) + len(self.data)

    def send(self, connection: Connection, timeout: float) -> Awaitable[Message]:
        return connection.start_request(self.subject, self.data, self.block, timeout)
