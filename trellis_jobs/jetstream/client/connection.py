"""One NATS connection that reconnects until it is closed, with publish, request and subscribe."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nats.errors import Error as NatsError

from trellis_jobs.errors import (
    InboxNotPermitted,
    InvalidToken,
    NotPermitted,
    PayloadTooLarge,
    Unreachable,
)
from trellis_jobs.jetstream.client.connect_options import ConnectOptions, as_connect_options
from trellis_jobs.jetstream.client.connection_events import ConnectionEvents
from trellis_jobs.jetstream.client.fast_client import new_client
from trellis_jobs.jetstream.client.pending_requests import (
    ConnectionLost,
    NoResponders,
    PendingRequests,
)
from trellis_jobs.jetstream.client.plain_client import CONNECT_OPTIONS
from trellis_jobs.jetstream.client.server_urls import parse_server_urls
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.core_client import CoreClient, Subscription
    from trellis_jobs.jetstream.client.fast_parser import Receive
    from trellis_jobs.jetstream.client.message import Message

__all__ = ["Connection", "ConnectionLost", "NoResponders"]

CONNECT_TIMEOUT: Final = 5.0
DRAIN_TIMEOUT: Final = 2.0
PING_INTERVAL: Final = 10
RECONNECT_WAIT: Final[Any] = 0.25  # nats-py declares an int and accepts any number
# With a reply subject it must fit into one protocol line (max_control_line, 4096 bytes).
_MAX_SUBJECT_LENGTH: Final = 2048

Observer = Callable[[], None]


class Connection:
    def __init__(
        self,
        client: CoreClient,
        open_another: Callable[[], Coroutine[Any, Any, Connection]],
        options: ConnectOptions,
        max_wait: float | None = None,
    ) -> None:
        self.open_another = open_another
        self.max_wait = max_wait
        self._client = client
        self.servers = str(options)
        self._api_prefix = options.api_prefix
        self.loop = asyncio.get_running_loop()
        self._requests = PendingRequests(client.new_inbox())
        self._connected = asyncio.Event()
        self._connected.set()
        self._on_reconnect: dict[object, Observer] = {}
        self._inbox_is_denied = False

    @classmethod
    async def open(
        cls,
        servers: str | ConnectOptions,
        *,
        name: str,
        timeout: float = CONNECT_TIMEOUT,
        retry_connect: bool = True,
        max_wait: float | None = None,
    ) -> Connection:
        """Connect within the timeout.

        Without `retry_connect` the client tries each server at most twice. `max_wait` limits how
        long a call waits for a reconnect or for a reply of JetStream; None waits for ever.
        """
        options = as_connect_options(servers)
        client_options = _client_options(options, name, retry_connect=retry_connect)
        events = ConnectionEvents()
        client = new_client(requires_encryption=options.requires_encryption)
        try:
            async with asyncio.timeout(timeout):
                await client.connect(
                    reconnect_time_wait=RECONNECT_WAIT,
                    ping_interval=PING_INTERVAL,
                    error_cb=events.error,
                    disconnected_cb=events.disconnected,
                    reconnected_cb=events.reconnected,
                    **client_options,
                )
        except (OSError, NatsError, TimeoutError, ValueError) as error:
            await client.close()
            raise events.connect_error(str(options), error) from error
        except asyncio.CancelledError:
            await client.close()
            raise
        client.options["max_reconnect_attempts"] = -1
        open_another = partial(cls.open, options, name=name, timeout=timeout)
        connection = cls(client, open_another, options, max_wait)
        events.connection = connection
        await connection.open_inbox()
        return connection

    async def open_inbox(self) -> None:
        """Subscribe to the inbox; before that no request gets its reply."""
        requests = self._requests
        try:
            await self._client.subscribe_callback(f"{requests.inbox}.>", requests.receive)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._requests.close()
        self._requests.fail(lambda _: ConnectionLost("the connection was closed"))
        if not self._client.is_closed:
            # The server may have closed the socket already; uvloop raises RuntimeError then.
            with contextlib.suppress(OSError, RuntimeError):
                await self._client.close()

    @property
    def server_version(self) -> str:
        return self._client.server_version

    @property
    def server_info(self) -> Mapping[str, Any]:
        """The INFO message that the server sent when the client connected."""
        return self._client.server_info

    @property
    def is_encrypted(self) -> bool:
        return self._client.is_encrypted

    @property
    def address(self) -> str:
        """Host and port of the server that the client is connected to."""
        return self._client.server_address

    async def round_trip(self) -> float:
        """Returns the seconds of one ping, by a clock that is finer than the event loop's."""
        started = time.perf_counter()
        try:
            await self._client.flush()
        except (NatsError, TimeoutError) as error:
            raise ConnectionLost(str(error)) from error
        return time.perf_counter() - started

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set() and self._client.is_connected

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    async def wait_until_connected(self) -> None:
        """Raises Unreachable after `max_wait`."""
        try:
            async with asyncio.timeout(self.max_wait):
                await self._connected.wait()
        except TimeoutError:
            raise Unreachable(self.servers, "the connection was lost") from None

    def on_reconnect(self, observe: Observer) -> Observer:
        """Call `observe` after each reconnect, until the returned function is called."""
        registration = object()
        self._on_reconnect[registration] = observe

        def forget() -> None:
            self._on_reconnect.pop(registration, None)

        return forget

    def api(self, call: str) -> str:
        """Returns the subject of a JetStream API call."""
        return f"{self._api_prefix}.{call}"

    def reply_to(self, token: str) -> str:
        """Returns the reply subject for a token; replies without a pending request are dropped."""
        return f"{self._requests.inbox}.{token}"

    def new_inbox(self) -> str:
        return self._client.new_inbox()

    async def flush(self) -> None:
        await self._client.flush()

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send without waiting for a reply; the message is lost if the connection is."""
        block = h.block(headers) if headers else b""
        if not self._publish_nowait(subject, data, reply, block):
            await self._client.publish_waiting(subject, reply, block, data)

    def publish_nowait(
        self, subject: str, data: bytes, *, reply: str = "", block: bytes = b""
    ) -> bool:
        """Send if the outbound buffer has room; returns whether the message was sent."""
        return self._publish_nowait(subject, data, reply, block)

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: dict[str, str] | None = None,
        timeout: float = 5.0,
    ) -> Message:
        """Send and wait for one reply."""
        block = h.block(headers) if headers else b""
        return await self.start_request(subject, data, block, timeout)

    def start_request(
        self, subject: str, data: bytes, block: bytes, timeout: float
    ) -> Awaitable[Message]:
        """Send, and return an awaitable for the reply; `block` is the encoded header block."""
        if self._inbox_is_denied:
            raise self._inbox_not_permitted(subject)
        token = self._requests.next_token()
        reply = self.reply_to(token)
        is_sent = self._publish_nowait(subject, data, reply, block)
        pending_reply = self._requests.add(token, subject, timeout)
        return (
            pending_reply
            if is_sent
            else self._request_slowly(pending_reply, subject, data, reply, block)
        )

    def expect_reply(
        self,
        token: str,
        subjects: Iterable[str],
        timeout: float,
        is_reply: Callable[[Message], bool],
    ) -> asyncio.Future[Message]:
        """Expect one reply to messages whose reply subjects begin with `token`, sent after this."""
        if self._inbox_is_denied:
            raise self._inbox_not_permitted(token)
        return self._requests.add(token, " ".join(subjects), timeout, is_reply)

    async def subscribe(self, subject: str, receive: Receive, *, group: str = "") -> Subscription:
        """Call `receive` for each message as soon as it is read; it must return quickly.

        Each message goes to one of the subscribers with the same `group`.
        """
        _check_subject(subject)
        return await self._client.subscribe_callback(subject, receive, group)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Raises nothing: a lost connection has ended the subscription already."""
        with contextlib.suppress(NatsError):
            await subscription.unsubscribe()

    async def drain(self, subscription: Subscription) -> None:
        """Unsubscribe, receive the messages in flight, and send what the receiver published."""
        if not self.is_connected:
            await self.unsubscribe(subscription)
            return
        with contextlib.suppress(NatsError, TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT):
                await subscription.drain()
                await self._client.flush()

    async def _request_slowly(
        self,
        pending_reply: asyncio.Future[Message],
        subject: str,
        data: bytes,
        reply: str,
        block: bytes,
    ) -> Message:
        try:
            await self._client.publish_waiting(subject, reply, block, data)
            return await pending_reply
        finally:
            pending_reply.cancel()

    def _publish_nowait(self, subject: str, data: bytes, reply: str, block: bytes) -> bool:
        """Returns False when the outbound buffer has no room."""
        _check_subject(subject)
        size = len(block) + len(data)
        # Headers count too: the server closes the connection after a message that is too large.
        if size > self._client.max_payload:
            raise PayloadTooLarge(subject, size, self._client.max_payload)
        return self._client.publish_nowait(subject, reply, block, data)

    def handle_disconnect(self) -> None:
        self._connected.clear()
        self._requests.fail(lambda _: ConnectionLost("the connection to the server was lost"))

    def inbox_denied(self, subject: str) -> bool:
        """Fail all requests if the server denied the inbox; returns False for other subjects."""
        # nats-py lower-cases the server's error, so compare without case.
        if subject != f"{self._requests.inbox}.>".lower():
            return False
        self._inbox_is_denied = True
        self._requests.fail(self._inbox_not_permitted)
        return True

    def _inbox_not_permitted(self, _: str) -> InboxNotPermitted:
        return InboxNotPermitted(f"{self._requests.inbox.rpartition('.')[0]}.>")

    def handle_reconnect(self) -> None:
        # Permissions may have changed; if not, the server denies the inbox again.
        self._inbox_is_denied = False
        self._connected.set()
        for observe in list(self._on_reconnect.values()):
            observe()

    def publish_denied(self, subject: str) -> bool:
        """Fail the pending requests to this subject; returns False when there are none."""
        # nats-py lower-cases the server's error, so compare without case.
        return self._requests.fail(
            NotPermitted,
            matches=lambda request_subjects: subject in request_subjects.lower().split(),
        )


def _client_options(options: ConnectOptions, name: str, *, retry_connect: bool) -> dict[str, Any]:
    return {
        "servers": parse_server_urls(options.servers),
        "name": name,
        "max_reconnect_attempts": -1 if retry_connect else 1,
        **options.client_options(),
        **CONNECT_OPTIONS,
    }


def _check_subject(subject: str) -> None:
    """Last line of defence: a line break in a subject would start another protocol command."""
    if " " in subject or not subject.isprintable() or len(subject) > _MAX_SUBJECT_LENGTH:
        reason = "it has spaces or unprintable characters, or is too long"
        raise InvalidToken("subject", subject, reason)
