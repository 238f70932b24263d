"""The same for bytes as a server sends them, which strangers have a part in: frames and headers."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, Final

from nats.errors import ProtocolError

from tests.fuzz.decoders import Decoder
from trellis_jobs.errors import RequestRefused
from trellis_jobs.jetstream.client.fast_parser import FastParser
from trellis_jobs.jetstream.client.message import Message, read_headers
from trellis_jobs.jetstream.keys.bucket import read_stored
from trellis_jobs.wire.headers import is_server_reply, may_be_server_reply


class Ears:
    """What a parser tells its client, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.receivers = {1: self._receive, 2: self._receive}

    def _receive(self, message: Message) -> None:
        self.told.append((message.subject, message.reply, message.headers, message.data))

    async def _process_err(self, said: str) -> None:
        self.told.append(said)

    async def _process_ping(self) -> None:
        self.told.append("PING")

    async def _process_pong(self) -> None:
        self.told.append("PONG")

    async def _process_info(self, info: object) -> None:
        self.told.append(info)


def heard(*chunks: bytes, feeding: bool = False) -> list[Any]:
    """What they are decoded to, one after the other; no reader ever waits.

    `feeding`: as they come from a socket, with what is left for nats-py brought in the end.
    """
    ears = Ears()
    parser = FastParser(ears)
    if feeding:
        chunks = tuple([parser.feed(chunk) for chunk in chunks])
    try:
        for chunk in filter(None, chunks):
            with suppress(StopIteration):
                parser.parse(chunk).send(None)
                raise AssertionError("it waits for something")
    except ProtocolError:
        ears.told.append("refused")
    return ears.told


def frames(data: bytes) -> None:
    """The same comes of them however they are cut, and by whichever way they come."""
    chance = Random(len(data))  # noqa: S311 - the same every time
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(4)))
    chunks = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    each = [bytes([one]) for one in data]
    assert heard(data) == heard(*chunks) == heard(*each)
    assert heard(data) == heard(*chunks, feeding=True) == heard(*each, feeding=True)


def header_block(data: bytes) -> None:
    headers = read_headers(data)
    for name, value in headers.items():
        assert "\r\n" not in name + value
    assert may_be_server_reply(data) or not is_server_reply(headers)
    assert isinstance(Message("a", block=data).status, str | None)


def stored_key(data: bytes) -> None:
    """Alone, and before what the server adds to it."""
    with suppress(RequestRefused):
        read_stored("$KV.JOBS_KEYS.a.b.c", Message("a", block=data))
    headers = data.removesuffix(b"\r\n\r\n") + b"\r\nNats-Sequence: 7\r\n\r\n"
    assert read_stored("$KV.JOBS_KEYS.a.b.c", Message("a", block=headers)).revision == 7


_FRAMES: Final = (
    b'INFO {"server_id":"N","max_payload":1048576}\r\nPING\r\nPONG\r\n+OK\r\n',
    b"MSG a.b 1 5\r\nhello\r\nMSG a.b 2 _INBOX.x.1 0\r\n\r\nPING\r\n",
    b"HMSG a.b 1 _INBOX.x.2 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhello\r\nMSG c 3 2\r\nhi\r\n",
    b"-ERR 'Permissions Violation for Publish to \"x\"'\r\nMSG \xff 1 2\r\n\r\n\r\n",
)
_BLOCKS: Final = (
    b"NATS/1.0 404 Message Not Found\r\n\r\n",
    b"NATS/1.0\r\nNats-Stream: KV_JOBS_KEYS\r\nNats-Sequence: 17\r\nKV-Operation: DEL\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: 1\r\n\r\n",
)

BLOCK_DECODERS: Final = (
    Decoder("frames", _FRAMES, frames),
    Decoder("headers", _BLOCKS, header_block),
    Decoder("stored keys", _BLOCKS, stored_key),
)
