"""nats-py on a shorter way: from the parser to the receiver, from the caller into the buffer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error
from nats.protocol.parser import PERMISSIONS_ERR

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

log = logging.getLogger(__name__)

Receive = Callable[[Msg], None]


def header_block(headers: dict[str, str]) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not lines.count("\n") == lines.count("\r") == len(headers):
        # A value with a line break would be a header of its own.
        return header_block({name: " ".join(value.split()) for name, value in headers.items()})
    return f"NATS/1.0\r\n{lines}\r\n".encode()


class DirectClient(Client):
    """nats-py, on a shorter way, and keeping all values of a repeated header.

    The shorter way: a message goes straight from the parser to its receiver, and a publish
    straight into the buffer, with no queue, task or coroutine between. It leans on private names
    of nats-py; one that changes its meaning shows in every test, and a method that is renamed
    only brings the ordinary way back.

    Repeated headers: a forged event (design D21) shows by carrying the server's reply headers
    twice when it is read by direct get: once forged, once real. nats-py keeps the last only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._receivers: dict[int, Receive] = {}

    @property
    def greeting(self) -> Mapping[str, Any]:
        return self._server_info

    @property
    def is_encrypted(self) -> bool:
        writer = getattr(self._transport, "_io_writer", None)
        if writer is None:  # a websocket tells by its address
            return bool(self.connected_url and self.connected_url.scheme == "wss")
        return writer.get_extra_info("ssl_object") is not None

    async def subscribe_directly(
        self, subject: str, receive: Receive, group: str = ""
    ) -> Subscription:
        async def ordinary(message: Msg) -> None:
            _deliver(receive, message)

        subscription = await self.subscribe(subject, queue=group, cb=ordinary)
        self._receivers[subscription._id] = receive
        return subscription

    async def lose_interest(self, subscription: Subscription) -> None:
        """Tell the server to send no more; what comes all the same is received."""
        await self._send_unsubscribe(subscription._id)
        await self.flush()

    def publish_at_once(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        """Put a message into the outbound buffer; False when only the ordinary way will do."""
        size = len(headers) + len(data)
        if (
            not self.is_connected
            or self._flush_queue is None
            or self._flusher_task is None
            or self._flusher_task.done()
            or self._pending_data_size + size > self._max_pending_size
        ):
            return False
        sizes = f"{len(headers)} {size}" if headers else size
        verb = "HPUB" if headers else "PUB"
        command = b"%b%b%b\r\n" % (f"{verb} {subject} {reply} {sizes}\r\n".encode(), headers, data)
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(data)
        self._pending.append(command)
        self._pending_data_size += len(command)
        if self._flush_queue.empty():
            self._flush_queue.put_nowait(self._loop.create_future())
        return True

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

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        receive = self._receivers.get(sid)
        if receive is None or sid not in self._subs:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        parsed = await self._process_headers(headers) if headers else None
        _deliver(receive, Msg(self, subject.decode(), reply.decode(), data, parsed))

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self._receivers.pop(sid, None)

    async def close(self) -> None:
        """nats-py flushes before it closes, and a server that is gone takes nothing."""
        if self._flush_queue is None:  # never connected: there is nothing to close
            return
        if not self.is_connected:
            self._pending, self._pending_data_size = [], 0
        await super().close()

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        headers: dict[str, str] = {}
        for line in raw.split(b"\r\n"):
            name, found, value = line.partition(b":")
            if not found:
                continue
            key, text = (
                name.strip().decode("ascii", "replace"),
                value.strip().decode("utf-8", "replace"),
            )
            headers[key] = f"{headers[key]}\n{text}" if key in headers else text
        return headers


def _deliver(receive: Receive, message: Msg) -> None:
    try:
        receive(message)
    except Exception:
        log.exception("a message could not be received", extra={"subject": message.subject})
