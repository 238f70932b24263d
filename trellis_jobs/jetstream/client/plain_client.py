"""The NATS client on nats-py's public names alone: slower than `FastClient`, for any version."""

from __future__ import annotations

import asyncio
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, DEFAULT_PENDING_SIZE, Client
from nats.errors import Error as NatsError
from nats.errors import OutboundBufferLimitError

from trellis_jobs.jetstream.client.fast_parser import Receive, deliver
from trellis_jobs.jetstream.client.message import Message, read_headers
from trellis_jobs.jetstream.client.pending_requests import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nats.aio.client import ServerVersion
    from nats.aio.msg import Msg

    from trellis_jobs.jetstream.client.core_client import Subscription

_SKIP_VALIDATION: Final = "skip_subject_validation"
_ENCRYPTED_SCHEMES: Final = frozenset({"tls", "wss"})
# `Connection` checks subjects faster; nats-py has its own check, and this option, since 2.16.
CONNECT_OPTIONS: Final[Mapping[str, bool]] = (
    {_SKIP_VALIDATION: True} if _SKIP_VALIDATION in signature(Client.connect).parameters else {}
)


class PlainClient(Client):
    """Implements `CoreClient` with nats-py's own queues and tasks.

    nats-py keeps only the last of repeated headers. That is the server's own one, so reads stay
    correct, but a forged event (design D21) is not recognised by its repeated headers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._publishes: set[asyncio.Task[None]] = set()

    @property
    def server_info(self) -> Mapping[str, Any]:
        return {"version": self.server_version}

    @property
    def server_version(self) -> str:
        return plain_version(self.connected_server_version)

    @property
    def server_address(self) -> str:
        url = self.connected_url
        return f"{url.hostname}:{url.port}" if url else "not connected"

    @property
    def is_encrypted(self) -> bool:
        return bool(self.connected_url and self.connected_url.scheme in _ENCRYPTED_SCHEMES)

    def publish_nowait(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        size = len(headers) + len(data)
        if not self.is_connected or self.pending_data_size + size > DEFAULT_PENDING_SIZE:
            return False
        task = asyncio.get_running_loop().create_task(
            self.publish_waiting(subject, reply, headers, data)
        )
        self._publishes.add(task)
        task.add_done_callback(self._published)
        return True

    def _published(self, task: asyncio.Task[None]) -> None:
        """A publish that failed is lost, like one in the buffer of a lost connection."""
        self._publishes.discard(task)
        if not task.cancelled():
            task.exception()

    async def publish_waiting(self, subject: str, reply: str, headers: bytes, data: bytes) -> None:
        parsed = read_headers(headers) if headers else None
        try:
            await self.publish(subject, data, reply=reply, headers=parsed)
        except OutboundBufferLimitError as error:
            raise ConnectionLost("the outbound buffer is full") from error
        except NatsError as error:
            raise ConnectionLost(str(error)) from error

    async def subscribe_callback(
        self, subject: str, receive: Receive, group: str = ""
    ) -> Subscription:
        async def pass_on(message: Msg) -> None:
            deliver(receive, _converted(message))

        return await self.subscribe(subject, queue=group, cb=pass_on)

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        await self._finish_publishes()
        await super().flush(timeout)

    async def close(self) -> None:
        await self._finish_publishes()
        await super().close()

    async def _finish_publishes(self) -> None:
        if self._publishes:
            await asyncio.gather(*self._publishes, return_exceptions=True)


def _converted(message: Msg) -> Message:
    headers = dict(message.headers or {})
    status, description = headers.pop("Status", ""), headers.pop("Description", "")
    first = " ".join(filter(None, ("NATS/1.0", status, description)))
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    block = "\r\n".join([*lines, "", ""]).encode() if message.headers else b""
    return Message(message.subject, message.data, message.reply, block)


def plain_version(version: ServerVersion) -> str:
    """Returns the version without the suffix of a preview or custom build."""
    try:
        return f"{version.major}.{version.minor}.{version.patch}"
    except ValueError:
        return "unknown"
