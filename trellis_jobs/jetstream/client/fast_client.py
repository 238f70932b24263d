"""A faster nats-py client: no queue or task between the socket and the receiver of a message."""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.errors import Error, FlushTimeoutError

from trellis_jobs.errors import CredentialsUnusable
from trellis_jobs.jetstream.client.fast_parser import FastParser, Receive
from trellis_jobs.jetstream.client.plain_client import PlainClient

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

_PERMISSIONS_ERROR: Final = "permissions violation"
# The private names of nats-py that FastClient uses. No other module may use any.
PRIVATE_NAMES: Final = (
    "_connect_command",
    "_err",
    "_error_cb",
    "_flush_queue",
    "_max_pending_size",
    "_pending",
    "_pending_data_size",
    "_pongs",
    "_process_err",
    "_process_op_err",
    "_process_pong",
    "_ps",
    "_read_loop",
    "_remove_sub",
    "_select_next_server",
    "_server_info",
    "_transport",
)
_PRIVATE_TRANSPORT_NAMES: Final = ("_io_reader", "_io_writer")
_PRIVATE_SUBSCRIPTION_NAMES: Final = ("_id",)

# The attribute of asyncio's StreamReader that holds received bytes that were not read yet.
_READ_BUFFER: Final = "_buffer"
# With more unsent bytes than this, nats-py's flusher waits for the socket instead.
_MAX_UNSENT_BYTES: Final = 1 << 20


class NotEncryptedError(Error):
    """The server offers no TLS although the options require it; no credentials were sent."""


def new_client(*, requires_encryption: bool = False) -> PlainClient:
    """Returns a FastClient, or a PlainClient if a private name of nats-py is missing."""
    missing = missing_names()
    if not missing:
        return FastClient(requires_encryption=requires_encryption)
    _warn_of_slow_path(missing)
    if requires_encryption:
        # Only a private method can stop nats-py from sending credentials without TLS.
        lacking = f"it has no {', '.join(missing)}, so credentials might be sent unencrypted"
        raise CredentialsUnusable("the installed nats-py", lacking)
    return PlainClient()


def missing_names() -> tuple[str, ...]:
    """Returns the private names that FastClient needs and the installed nats-py does not have."""
    client = Client()
    needed: tuple[tuple[object, tuple[str, ...]], ...] = (
        (client, PRIVATE_NAMES),
        (TcpTransport(), _PRIVATE_TRANSPORT_NAMES),  # type: ignore[no-untyped-call]
        (Subscription(client), _PRIVATE_SUBSCRIPTION_NAMES),
    )
    return tuple(name for owner, names in needed for name in names if not hasattr(owner, name))


@cache
def _warn_of_slow_path(missing: tuple[str, ...]) -> None:
    """Logs once per process."""
    log.warning(
        "this version of nats-py has no %s: using its slower public interface; install a supported "
        "version of nats-py",
        ", ".join(missing),
    )


class FastClient(PlainClient):
    """Passes each message from the socket straight to its receiver, and collects publishes in one
    buffer that is written in the next turn of the event loop.

    With `requires_encryption` the client sends no credentials to a server without TLS.
    """

    def __init__(self, *, requires_encryption: bool = False) -> None:
        super().__init__()
        self._requires_encryption = requires_encryption
        self._loop = asyncio.get_running_loop()
        self._ps = FastParser(self)
        self._write_is_scheduled = False
        self.receivers: dict[int, Receive] = {}

    @property
    def server_info(self) -> Mapping[str, Any]:
        return self._server_info

    @property
    def is_encrypted(self) -> bool:
        writer = self._writer
        if writer is None:  # for a websocket only the URL tells
            return bool(self.connected_url and self.connected_url.scheme == "wss")
        return writer.get_extra_info("ssl_object") is not None

    @property
    def _writer(self) -> asyncio.StreamWriter | None:
        return getattr(self._transport, "_io_writer", None)

    async def subscribe_callback(
        self, subject: str, receive: Receive, group: str = ""
    ) -> Subscription:
        subscription = await self.subscribe(subject, queue=group)
        self.receivers[subscription._id] = receive
        return subscription

    def publish_nowait(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        """Put a message into the outbound buffer; returns False when `publish` is needed."""
        size = len(headers) + len(data)
        if not self.is_connected or self._pending_data_size + size > self._max_pending_size:
            return False
        if headers:
            line = f"HPUB {subject} {reply} {len(headers)} {size}\r\n"
        else:
            line = f"PUB {subject} {reply} {size}\r\n"
        self._pending.append(b"%b%b%b\r\n" % (line.encode(), headers, data))
        self._pending_data_size += size
        if not self._write_is_scheduled:
            self._write_is_scheduled = True
            self._loop.call_soon(self._write)
        return True

    def _write(self) -> None:
        """Write everything that was published since the last turn of the loop in one call."""
        self._write_is_scheduled = False
        writer = self._writer
        if (
            writer is None
            or not self.is_connected
            or writer.transport.is_closing()
            or writer.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES
        ):
            self._wake_flusher()
        elif self._pending:
            writer.write(b"".join(self._pending))
            self._pending, self._pending_data_size = [], 0

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        """Wait until the server has read everything that was sent before.

        nats-py's ping alone confirms nothing: it overtakes what the flusher has not written yet.
        """
        self._write()
        if self._pending and self.is_connected and self._flush_queue is not None:
            written = self._loop.create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._flush_queue.put(written)
                    await written
            except TimeoutError:
                raise FlushTimeoutError from None
        await super().flush(timeout)

    def _wake_flusher(self) -> None:
        """Let nats-py write: its flusher waits for a full socket, and after a disconnect it keeps
        the pending messages for the next connection.
        """
        if self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(self._loop.create_future())

    async def _read_loop(self) -> None:
        """Install the fast protocol on each new socket; nats-py reads everything but messages."""
        writer, reader = self._writer, getattr(self._transport, "_io_reader", None)
        stream_protocol = None if writer is None else writer.transport.get_protocol()
        unread = getattr(reader, _READ_BUFFER, None)
        if (
            writer is not None
            and isinstance(stream_protocol, asyncio.StreamReaderProtocol)
            and isinstance(unread, bytearray)  # needed to keep the order of messages
        ):
            self._ps = parser = FastParser(self, unparsed=len(unread))
            is_encrypted = writer.get_extra_info("sslcontext") is not None
            writer.transport.set_protocol(
                _FastProtocol(self, stream_protocol, parser, is_encrypted)
            )
        await super()._read_loop()

    def is_current_parser(self, parser: FastParser) -> bool:
        """Returns False for the parser of a socket that was replaced."""
        return self.is_connected and self._ps is parser

    def _connect_command(self) -> bytes:
        """Returns the first bytes that the client sends, which contain the credentials.

        nats-py uses TLS only if the server requests it, whatever the URL says, so anyone who
        replies in the server's place could read the credentials. nats-py calls this on every
        connect and reconnect, also for servers that it discovered through another server.
        """
        if self._requires_encryption and not self.is_encrypted:
            if self._writer is not None:
                self._writer.close()
            raise NotEncryptedError("the server offers no TLS")
        return super()._connect_command()

    async def _select_next_server(self) -> None:
        """Close the socket of a handshake that failed: nats-py would replace it and leave it open
        until the garbage collector finds it.
        """
        if self._writer is not None:
            self._writer.close()
        await super()._select_next_server()

    async def _process_err(self, err_msg: str) -> None:
        """Reconnect after a server error; nats-py would close for good after most of them.

        Revoked credentials may become valid again, and the cause of an error may be gone.
        """
        if _PERMISSIONS_ERROR in err_msg or not self.is_connected:
            await super()._process_err(err_msg)
            return
        reason = err_msg.strip("'")
        self._err = Error(f"nats: {reason}")
        await self._error_cb(self._err)
        await self._process_op_err(self._err)

    async def _process_pong(self) -> None:
        """Ignore the pong of a flush that was cancelled: nats-py would lose the connection."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = self._loop.create_future()
        await super()._process_pong()

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self.receivers.pop(sid, None)

    async def close(self) -> None:
        """Drop pending data if disconnected: nats-py flushes before it closes."""
        if self._flush_queue is None:  # it never connected, so there is nothing to close
            return
        if not self.is_connected:
            self._pending, self._pending_data_size = [], 0
            if isinstance(self._transport, TcpTransport) and self._writer is None:
                self._transport = None  # nats-py before 2.15 cannot close a socket never opened
        try:
            await super().close()
        except asyncio.CancelledError:
            # nats-py cancels its own reconnect task, and then waits for a future that the task
            # would have completed. Only a cancellation of the current task must be passed on.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise


class _FastProtocol(asyncio.Protocol):
    """Delivers messages to their receivers as they are read, and passes the rest to nats-py."""

    def __init__(
        self,
        client: FastClient,
        stream_protocol: asyncio.StreamReaderProtocol,
        parser: FastParser,
        is_encrypted: bool,
    ) -> None:
        self._client = client
        self._stream_protocol = stream_protocol
        self._parser = parser
        self._is_encrypted = is_encrypted

    def data_received(self, data: bytes) -> None:
        if self._client.is_current_parser(self._parser):
            data = self._parser.feed(data)
        if data:
            self._stream_protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """TLS has no half-open connections, and asyncio warns about a protocol that keeps one.

        The protocol of nats-py does not know about TLS, because nats-py upgrades it later.
        """
        return self._stream_protocol.eof_received() and not self._is_encrypted

    def pause_writing(self) -> None:
        self._stream_protocol.pause_writing()

    def resume_writing(self) -> None:
        self._stream_protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream_protocol.connection_lost(exc)
