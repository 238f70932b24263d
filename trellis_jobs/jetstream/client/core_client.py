"""What a connection needs of a client for core NATS.

`FastClient` and `PlainClient` implement it with nats-py, and the in-memory client of
`trellis_jobs.testing` implements it without a network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trellis_jobs.jetstream.client.message import Message


class Subscription(Protocol):
    async def unsubscribe(self) -> None: ...

    async def drain(self) -> None:
        """Unsubscribe, and receive the messages in flight."""


class CoreClient(Protocol):
    @property
    def is_connected(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def is_encrypted(self) -> bool: ...

    @property
    def max_payload(self) -> int: ...

    @property
    def server_info(self) -> Mapping[str, Any]:
        """The INFO message of the server, as far as the client knows it."""

    @property
    def server_version(self) -> str: ...

    @property
    def server_address(self) -> str:
        """Host and port of the connected server."""

    def new_inbox(self) -> str: ...

    def publish_nowait(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        """Send if the outbound buffer has room; returns whether the message was sent."""

    async def publish_waiting(self, subject: str, reply: str, headers: bytes, data: bytes) -> None:
        """Wait for the outbound buffer and send; raises ConnectionLost."""

    async def subscribe_callback(
        self, subject: str, receive: Callable[[Message], None], group: str = ""
    ) -> Subscription: ...

    async def flush(self) -> None:
        """Wait until the server has read everything that was sent before."""

    async def close(self) -> None: ...
