"""nats-py on a shorter way: from the socket to the receiver, from the caller to the socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.errors import Error, FlushTimeoutError
from nats.protocol.parser import PERMISSIONS_ERR

from trellis_jobs.jetstream.client.fast_parser import DirectParser, Receive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nats.aio.subscription import Subscription

# Where a reader of asyncio keeps what was received and not read yet.
_UNREAD: Final = "_buffer"
# What a socket has not taken yet; with more than that we wait for it, as nats-py does.
_MOST_UNSENT: Final = 1 << 20


class NotEncryptedError(Error):
    """The server offers no TLS although we must use it, so it was not sent our credentials."""


class DirectClient(Client):
    """A message goes straight from the socket to its receiver, and a publish into one buffer that
    is written once the loop gets to it: no queue, task or coroutine between.

    It leans on private names of nats-py; one that changes its meaning shows in every test, and a
    method that is renamed only brings the ordinary way back.

    With `requires_encryption` no server without TLS gets our credentials.
    """

    def __init__(self, *, requires_encryption: bool = False) -> None:
        super().__init__()
        self._requires_encryption = requires_encryption
        self._loop = asyncio.get_running_loop()
        self._ps = DirectParser(self)
        self._writes_soon = False
        self.receivers: dict[int, Receive] = {}

    @property
    def greeting(self) -> Mapping[str, Any]:
        return self._server_info

    @property
    def is_encrypted(self) -> bool:
        writer = self._writer
        if writer is None:  # a websocket tells by its address
            return bool(self.connected_url and self.connected_url.scheme == "wss")
        return writer.get_extra_info("ssl_object") is not None

    @property
    def _writer(self) -> asyncio.StreamWriter | None:
        return getattr(self._transport, "_io_writer", None)

    async def subscribe_directly(
        self, subject: str, receive: Receive, group: str = ""
    ) -> Subscription:
        subscription = await self.subscribe(subject, queue=group)
        self.receivers[subscription._id] = receive
        return subscription

    def publish_nowait(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        """Put a message into the outbound buffer; False when only the ordinary way will do."""
        size = len(headers) + len(data)
        if not self.is_connected or self._pending_data_size + size > self._max_pending_size:
            return False
        if headers:
            line = f"HPUB {subject} {reply} {len(headers)} {size}\r\n"
        else:
            line = f"PUB {subject} {reply} {size}\r\n"
        self._pending.append(b"%b%b%b\r\n" % (line.encode(), headers, data))
        self._pending_data_size += size
        if not self._writes_soon:
            self._writes_soon = True
            self._loop.call_soon(self._write)
        return True

    def _write(self) -> None:
        """Everything that was published since the loop was here last, in one go."""
        self._writes_soon = False
        writer = self._writer
        if (
            writer is None
            or not self.is_connected
            or writer.transport.is_closing()
            or writer.transport.get_write_buffer_size() > _MOST_UNSENT
        ):
            self._flush_as_usual()
        elif self._pending:
            writer.write(b"".join(self._pending))
            self._pending, self._pending_data_size = [], 0

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        """Until the server has read everything that was sent before.

        The ping of nats-py overtakes what its flusher has yet to write, and so confirms nothing.
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

    def _flush_as_usual(self) -> None:
        """nats-py waits for a socket that is full, and keeps what was published for the next one
        when it is gone.
        """
        if self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(self._loop.create_future())

    async def _read_loop(self) -> None:
        """Of each new socket: nats-py is left with what is no message, and what came before."""
        writer, reader = self._writer, getattr(self._transport, "_io_reader", None)
        usual = None if writer is None else writer.transport.get_protocol()
        unread = getattr(reader, _UNREAD, None)
        if (
            writer is not None
            and isinstance(usual, asyncio.StreamReaderProtocol)
            and isinstance(unread, bytearray)  # without it messages might overtake
        ):
            self._ps = parser = DirectParser(self, left=len(unread))
            is_encrypted = writer.get_extra_info("sslcontext") is not None
            writer.transport.set_protocol(_Shortcut(self, usual, parser, is_encrypted))
        await super()._read_loop()

    def is_read_by(self, parser: DirectParser) -> bool:
        """Not by that of a socket that was given up."""
        return self.is_connected and self._ps is parser

    def _connect_command(self) -> bytes:
        """The first bytes that a server gets from us, with the credentials in them.

        nats-py uses TLS only if the server asks for it, whatever the address says; anyone who can
        answer in the server's place could so read what we send. This runs for every connect and
        reconnect, also to servers that another server told us of.
        """
        if self._requires_encryption and not self.is_encrypted:
            if self._writer is not None:
                self._writer.close()
            raise NotEncryptedError("the server offers no TLS")
        return super()._connect_command()

    async def _process_err(self, err_msg: str) -> None:
        """nats-py closes for good after most errors of the server; ours comes back.

        Credentials that were revoked may be given again, and what a server did not like about one
        connection it need not mind about the next.
        """
        if PERMISSIONS_ERR in err_msg or not self.is_connected:
            await super()._process_err(err_msg)
            return
        said = err_msg.strip("'")
        self._err = Error(f"nats: {said}")
        await self._error_cb(self._err)
        await self._process_op_err(self._err)

    async def _process_pong(self) -> None:
        """nats-py loses the connection over the answer to a flush that somebody gave up."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = self._loop.create_future()
        await super()._process_pong()

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self.receivers.pop(sid, None)

    async def close(self) -> None:
        """nats-py flushes before it closes, and a server that is gone takes nothing."""
        if self._flush_queue is None:  # never connected: there is nothing to close
            return
        if not self.is_connected:
            self._pending, self._pending_data_size = [], 0
        try:
            await super().close()
        except asyncio.CancelledError:
            # nats-py gives its own reconnecting up, and with it the end of the socket that it then
            # waits for: only if we are cancelled ourselves is that for us.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise


class _Shortcut(asyncio.Protocol):
    """Messages go to their receivers as they are read, and what is left to nats-py."""

    def __init__(
        self,
        client: DirectClient,
        usual: asyncio.StreamReaderProtocol,
        parser: DirectParser,
        is_encrypted: bool,
    ) -> None:
        self._client = client
        self._usual = usual
        self._parser = parser
        self._is_encrypted = is_encrypted

    def data_received(self, data: bytes) -> None:
        if self._client.is_read_by(self._parser):
            data = self._parser.feed(data)
        if data:
            self._usual.data_received(data)

    def eof_received(self) -> bool | None:
        """TLS has no half-open connections, and asyncio warns of a protocol that wants one.

        nats-py starts TLS later, so its own protocol does not know about it.
        """
        return self._usual.eof_received() and not self._is_encrypted

    def pause_writing(self) -> None:
        self._usual.pause_writing()

    def resume_writing(self) -> None:
        self._usual.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._usual.connection_lost(exc)
