"""The protocol of NATS, read for receivers of messages; all that is no message is nats-py's."""

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
_MESSAGES: Final = (b"MSG ", b"HMSG ")


class DirectParser(Parser):
    """Cuts messages out of what was read, for their receivers; the rest is nats-py's.

    `left`: the bytes that nats-py has yet to give to `parse`. Until then everything goes that way,
    so that nothing overtakes.

    What it cannot read is a ProtocolError: after any other nats-py is deaf, and says nothing of it.
    """

    def __init__(self, client: Any = None, left: int = 0) -> None:
        super().__init__(client)
        self._left = left

    def reset(self) -> None:
        super().reset()
        self._rest = b""
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """Deliver the messages that are whole by now; what is returned is for nats-py."""
        for_nats = data
        if self._left == 0:
            read = self._rest + data
            place, is_next_for_nats = self._take_messages(read, 0)
            self._rest, for_nats = read[place:], b""
            if is_next_for_nats:
                self._rest, for_nats = b"", self._rest
        self._left += len(for_nats)
        return for_nats

    async def parse(self, data: bytes = b"") -> None:
        read = self._rest + data
        place, is_next_for_nats = self._take_messages(read, 0)
        while is_next_for_nats:
            # Together with its end: the ordinary parser holds nothing back.
            begin, place = place, read.find(_CRLF, place) + len(_CRLF)
            await self._parse_line(read[begin:place])
            place, is_next_for_nats = self._take_messages(read, place)
        self._rest = read[place:]
        self._left -= len(data)

    def _take_messages(self, read: bytes, place: int) -> tuple[int, bool]:
        """Where those end that begin here; True: a line follows that is none of ours."""
        while (end := read.find(_CRLF, place)) >= 0:
            if not read.startswith(_MESSAGES, place):
                return place, True
            try:
                after = self._take(read[place:end], read, end + len(_CRLF))
            except ProtocolError:
                return place, True
            if after is None:
                break
            place = after
        return place, False

    async def _parse_line(self, line: bytes) -> None:
        if line.startswith(_MESSAGES):
            raise ProtocolError
        try:
            await super().parse(line)
        except (ValueError, AttributeError):  # an error that says nothing is None to nats-py
            raise ProtocolError from None

    def _take(self, line: bytes, read: bytes, begin: int) -> int | None:
        """Where the message ends that a line announces; None: it is not all there yet."""
        try:
            _, subject, number, *reply, size = line.split()
            headers_size = int(reply.pop()) if line.startswith(b"H") else 0
            end = begin + int(size)
            receive = self.nc.receivers.get(int(number))
        except (ValueError, IndexError):
            raise ProtocolError from None
        if not begin <= begin + headers_size <= end:
            raise ProtocolError
        if end + len(_CRLF) > len(read):
            return None
        if receive is not None:
            deliver(
                receive,
                Message(
                    subject.decode("utf-8", "replace"),  # the server takes any bytes
                    read[begin + headers_size : end],
                    reply[0].decode("utf-8", "replace") if reply else "",
                    read[begin : begin + headers_size],
                ),
            )
        return end + len(_CRLF)


def deliver(receive: Receive, message: Message) -> None:
    try:
        receive(message)
    except Exception:
        log.exception(
            "a message on %s could not be processed",
            message.subject,
            extra={"subject": message.subject},
        )
