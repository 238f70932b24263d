"""One NATS connection that never gives up, and the answers that come back over it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nats.errors import Error as NatsError
from nats.errors import OutboundBufferLimitError

from trellis_jobs.errors import (
    InboxNotPermitted,
    InvalidToken,
    NotPermitted,
    PayloadTooLarge,
    Unreachable,
)
from trellis_jobs.jetstream.client.connect_options import ConnectOptions, access_to
from trellis_jobs.jetstream.client.connection_events import ConnectionEvents
from trellis_jobs.jetstream.client.fast_client import DirectClient
from trellis_jobs.jetstream.client.message import read_headers
from trellis_jobs.jetstream.client.pending_requests import (
    ConnectionLost,
    NoResponders,
    PendingRequests,
)
from trellis_jobs.jetstream.client.server_urls import addresses_in
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from nats.aio.client import ServerVersion
    from nats.aio.subscription import Subscription

    from trellis_jobs.jetstream.client.fast_parser import Receive
    from trellis_jobs.jetstream.client.message import Message

__all__ = ["Connection", "ConnectionLost", "NoResponders", "plain_version"]

CONNECT_TIMEOUT: Final = 5.0
DRAIN_TIMEOUT: Final = 2.0
PING_INTERVAL: Final = 10
RECONNECT_WAIT: Final[Any] = 0.25  # nats-py says int and takes any number
# With a reply of ours it must fit into one line of the protocol (max_control_line, 4096 bytes).
_LONGEST_SUBJECT: Final = 2048

Observer = Callable[[], None]


class Connection:
    def __init__(
        self,
        client: DirectClient,
        open_another: Callable[[], Coroutine[Any, Any, Connection]],
        access: ConnectOptions,
        patience: float | None = None,
    ) -> None:
        self.open_another = open_another
        self.patience = patience
        self._client = client
        self.servers = str(access)
        self._api_prefix = access.api_prefix
        self.loop = asyncio.get_running_loop()
        self._questions = PendingRequests(client.new_inbox())
        self._up = asyncio.Event()
        self._up.set()
        self._on_reconnect: dict[object, Observer] = {}
        self._is_deaf = False

    @classmethod
    async def open(
        cls,
        servers: str | ConnectOptions,
        *,
        name: str,
        timeout: float = CONNECT_TIMEOUT,
        insist: bool = True,
        patience: float | None = None,
    ) -> Connection:
        """Within the timeout; without `insist` a server that refuses is asked twice and no more.

        `patience`: how long somebody waits for a server that went away, or for JetStream if that
        is silent; None is for ever.
        """
        access = access_to(servers)
        options = {
            "servers": addresses_in(access.servers),
            "name": name,
            "max_reconnect_attempts": -1 if insist else 1,
            **access.client_options(),
        }
        client = DirectClient(requires_encryption=access.requires_encryption)
        relay = ConnectionEvents()
        try:
            async with asyncio.timeout(timeout):
                await client.connect(
                    reconnect_time_wait=RECONNECT_WAIT,
                    ping_interval=PING_INTERVAL,
                    skip_subject_validation=True,  # _check_subject is quicker
                    error_cb=relay.error,
                    disconnected_cb=relay.disconnected,
                    reconnected_cb=relay.reconnected,
                    **options,
                )
        except (OSError, NatsError, TimeoutError, ValueError) as error:
            await client.close()
            raise relay.why_not_connected(str(access), error) from error
        client.options["max_reconnect_attempts"] = -1
        again = partial(cls.open, access, name=name, timeout=timeout)
        connection = cls(client, again, access, patience)
        relay.connection = connection
        await connection.listen()
        return connection

    async def listen(self) -> None:
        """Nothing that is asked is answered before."""
        questions = self._questions
        await self._client.subscribe_directly(f"{questions.inbox}.>", questions.receive)

    async def close(self) -> None:
        self._questions.close()
        self._questions.fail(lambda _: ConnectionLost("the connection was closed"))
        if not self._client.is_closed:
            # The server may have gone a moment ago; uvloop says so with a RuntimeError.
            with contextlib.suppress(OSError, RuntimeError):
                await self._client.close()

    @property
    def server_version(self) -> str:
        return plain_version(self._client.connected_server_version)

    @property
    def greeting(self) -> Mapping[str, Any]:
        """What the server said of itself when it let us in."""
        return self._client.greeting

    @property
    def is_encrypted(self) -> bool:
        return self._client.is_encrypted

    @property
    def address(self) -> str:
        """Of the server we are connected to: host and port."""
        url = self._client.connected_url
        return f"{url.hostname}:{url.port}" if url else "nowhere"

    async def round_trip(self) -> float:
        """Seconds that a ping takes; loops have clocks too coarse for that."""
        begun = time.perf_counter()
        try:
            await self._client.flush()
        except (NatsError, TimeoutError) as error:
            raise ConnectionLost(str(error)) from error
        return time.perf_counter() - begun

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    @property
    def is_up(self) -> bool:
        return self._up.is_set() and self._client.is_connected

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    async def until_up(self) -> None:
        """Raises Unreachable where somebody has no more patience."""
        try:
            async with asyncio.timeout(self.patience):
                await self._up.wait()
        except TimeoutError:
            raise Unreachable(self.servers, "it went away") from None

    def on_reconnect(self, observe: Observer) -> Observer:
        """Call `observe` after each reconnect, until the returned function is called."""
        registration = object()
        self._on_reconnect[registration] = observe

        def forget() -> None:
            self._on_reconnect.pop(registration, None)

        return forget

    def api(self, call: str) -> str:
        """The subject on which JetStream is asked this."""
        return f"{self._api_prefix}.{call}"

    def reply_to(self, token: str) -> str:
        """Where a question with this token is answered; what nobody expects is dropped."""
        return f"{self._questions.inbox}.{token}"

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
        """Send without asking for an answer; lost if the connection is."""
        block = h.block(headers) if headers else b""
        if not self._publish_at_once(subject, data, reply, block):
            await self._publish_as_usual(subject, data, reply, block)

    def publish_now(
        self, subject: str, data: bytes, *, reply: str = "", block: bytes = b""
    ) -> bool:
        """Send if that takes no waiting; False: not sent."""
        return self._publish_at_once(subject, data, reply, block)

    async def ask(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: dict[str, str] | None = None,
        timeout: float = 5.0,
    ) -> Message:
        """Send and wait for the one answer."""
        block = h.block(headers) if headers else b""
        return await self.question(subject, data, block, timeout)

    def question(
        self, subject: str, data: bytes, block: bytes, timeout: float
    ) -> Awaitable[Message]:
        """Send, and return what the answer is awaited with; `block`: the headers as they go out."""
        if self._is_deaf:
            raise self._not_answered(subject)
        token = self._questions.next_token()
        reply = self.reply_to(token)
        is_sent = self._publish_at_once(subject, data, reply, block)
        answer = self._questions.add(token, subject, timeout)
        return answer if is_sent else self._ask_as_usual(answer, subject, data, reply, block)

    def expect(
        self,
        token: str,
        subjects: Iterable[str],
        timeout: float,
        is_answer: Callable[[Message], bool],
    ) -> asyncio.Future[Message]:
        """The one answer to messages that are sent next, under replies that begin with `token`."""
        if self._is_deaf:
            raise self._not_answered(token)
        return self._questions.add(token, " ".join(subjects), timeout, is_answer)

    async def subscribe(self, subject: str, receive: Receive, *, group: str = "") -> Subscription:
        """`receive` is called as soon as a message is read, and must return soon.

        Of all subscribers with the same `group` one gets each message.
        """
        _check_subject(subject)
        return await self._client.subscribe_directly(subject, receive, group)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Quietly: a subscription of a connection that is gone is gone too."""
        with contextlib.suppress(NatsError):
            await subscription.unsubscribe()

    async def drain(self, subscription: Subscription) -> None:
        """Unsubscribe, and receive what was under way; then let the reactions to it go out."""
        if not self.is_up:
            await self.unsubscribe(subscription)
            return
        with contextlib.suppress(NatsError, TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT):
                await subscription.drain()  # type: ignore[no-untyped-call]
                await self._client.flush()

    async def _ask_as_usual(
        self, answer: asyncio.Future[Message], subject: str, data: bytes, reply: str, block: bytes
    ) -> Message:
        try:
            await self._publish_as_usual(subject, data, reply, block)
            return await answer
        finally:
            answer.cancel()

    def _publish_at_once(self, subject: str, data: bytes, reply: str, block: bytes) -> bool:
        """False when the buffer cannot take it now."""
        _check_subject(subject)
        size = len(block) + len(data)
        # Headers count too: a server that gets more than it takes closes the connection.
        if size > self._client.max_payload:
            raise PayloadTooLarge(subject, size, self._client.max_payload)
        return self._client.publish_nowait(subject, reply, block, data)

    async def _publish_as_usual(self, subject: str, data: bytes, reply: str, block: bytes) -> None:
        headers = read_headers(block) if block else None
        try:
            await self._client.publish(subject, data, reply=reply, headers=headers)
        except OutboundBufferLimitError as error:
            raise ConnectionLost("the outbound buffer is full") from error
        except NatsError as error:
            raise ConnectionLost(str(error)) from error

    def lost(self) -> None:
        self._up.clear()
        self._questions.fail(lambda _: ConnectionLost("the connection to the server was lost"))

    def deafened(self, subject: str) -> bool:
        """No answer will come, to any question; False when it was about another subscription."""
        # nats-py lower-cases what the server says, so compare without case.
        if subject != f"{self._questions.inbox}.>".lower():
            return False
        self._is_deaf = True
        self._questions.fail(self._not_answered)
        return True

    def _not_answered(self, _: str) -> InboxNotPermitted:
        return InboxNotPermitted(f"{self._questions.inbox.rpartition('.')[0]}.>")

    def restored(self) -> None:
        self._is_deaf = False  # rights may be others now; if not, the server says so again
        self._up.set()
        for observe in list(self._on_reconnect.values()):
            observe()

    def denied(self, subject: str) -> bool:
        """Fail the questions this is about; False when it was about something else."""
        # nats-py lower-cases what the server says, so compare without case.
        return self._questions.fail(
            NotPermitted, about=lambda asked: subject in asked.lower().split()
        )


def _check_subject(subject: str) -> None:
    """The last line of defence: what ends a line of the protocol begins a command of its own."""
    if " " in subject or not subject.isprintable() or len(subject) > _LONGEST_SUBJECT:
        raise InvalidToken("subject", subject, "no server would take it for one")


def plain_version(version: ServerVersion) -> str:
    """Without what follows it in a preview or a build of one's own."""
    try:
        return f"{version.major}.{version.minor}.{version.patch}"
    except ValueError:
        return "unknown"
