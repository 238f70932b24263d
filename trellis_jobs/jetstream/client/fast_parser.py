"""A parser that delivers messages itself and leaves all other protocol lines to nats-py."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from trellis_jobs.jetstream.client.message import Message

log = logging.getLogger(__name__)

Receive = Callable[[Message], None]

_CRLF: Final = b"\r\n"
_MESSAGE_VERBS: Final = (b"MSG ", b"HMSG ")


class FastParser(Parser):
    """Takes messages out of the received bytes and delivers them; nats-py parses the rest.

    `unparsed` counts the bytes that nats-py still has to pass to `parse`. Until it has, all bytes
    take that way, so that messages stay in order.

    Malformed bytes raise ProtocolError: after any other error nats-py silently stops reading.
    """

    def __init__(self, client: Any = None, unparsed: int = 0) -> None:
        super().__init__(client)
        self._unparsed = unparsed

    def reset(self) -> None:
        super().reset()
        self._rest = b""
        self._unparsed = 0

    def feed(self, data: bytes) -> bytes:
        """Deliver the messages that are complete; returns the bytes that nats-py must parse."""
        for_nats_py = data
        if self._unparsed == 0:
            read = self._rest + data
            position, nats_py_is_next = self._take_messages(read, 0)
            self._rest, for_nats_py = read[position:], b""
            if nats_py_is_next:
                self._rest, for_nats_py = b"", self._rest
        self._unparsed += len(for_nats_py)
        return for_nats_py

    async def parse(self, data: bytes = b"") -> None:
        read = self._rest + data
        position, nats_py_is_next = self._take_messages(read, 0)
        while nats_py_is_next:
            # Pass whole lines, so that nats-py's parser keeps no partial line.
            start, position = position, read.find(_CRLF, position) + len(_CRLF)
            await self._parse_line(read[start:position])
            position, nats_py_is_next = self._take_messages(read, position)
        self._rest = read[position:]
        self._unparsed -= len(data)

    def _take_messages(self, read: bytes, position: int) -> tuple[int, bool]:
        """Deliver messages from `position` on; returns where they end, and whether the next line
        is one for nats-py.
        """
        while (end := read.find(_CRLF, position)) >= 0:
            if not read.startswith(_MESSAGE_VERBS, position):
                return position, True
            try:
                after = self._take_message(read[position:end], read, end + len(_CRLF))
            except ProtocolError:
                return position, True
            if after is None:
                break
            position = after
        return position, False

    async def _parse_line(self, line: bytes) -> None:
        if line.startswith(_MESSAGE_VERBS):
            raise ProtocolError
        try:
            await super().parse(line)
        except (ValueError, AttributeError):  # nats-py fails on an -ERR line without a text
            raise ProtocolError from None

    def _take_message(self, line: bytes, read: bytes, start: int) -> int | None:
        """Deliver the message of a protocol line; returns its end, or None if it is incomplete."""
        try:
            _, subject, subscription_id, *reply, size = line.split()
            headers_size = int(reply.pop()) if line.startswith(b"H") else 0
            end = start + int(size)
            receive = self.nc.receivers.get(int(subscription_id))
        except (ValueError, IndexError):
            raise ProtocolError from None
        if not start <= start + headers_size <= end:
            raise ProtocolError
        if end + len(_CRLF) > len(read):
            return None
        if receive is not None:
            deliver(
                receive,
                Message(
                    subject.decode("utf-8", "replace"),  # the server allows any bytes
                    read[start + headers_size : end],
                    reply[0].decode("utf-8", "replace") if reply else "",
                    read[start : start + headers_size],
                ),
            )
        return end + len(_CRLF)


def deliver(receive: Receive, message: Message) -> None:
    try:
        receive(message)
    except Exception:
        log.exception(
            "the receiver of a message on %s failed",
            message.subject,
            extra={"subject": message.subject},
        )
