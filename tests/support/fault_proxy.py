"""A TCP proxy between a client and its server, with faults at chosen messages.

A rule waits for a message in one direction and then does something real: kill a process, cut the
connection, hold everything back. Each message is judged alone, however the sockets cut them.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from urllib.parse import urlsplit

_ANSWER = re.compile(rb"PUB (\$JS\.ACK\.\S+) +(?:\S+ +)?\d+\r\n([+-][^\r]*)\r\n")
_LINE = re.compile(rb"(?:(?:H?PUB|[A-Z]?MSG) [^\r\n]*?(\d+)|[^\r\n]*)\r\n")


class Then(Enum):
    """What happens to the message that a rule matched."""

    FORWARD = auto()
    SWALLOW = auto()
    CUT = auto()


@dataclass
class _Rule:
    """`act` gets the match and a way to speak to the sender in the other end's name."""

    pattern: re.Pattern[bytes]
    act: Callable[[re.Match[bytes], asyncio.StreamWriter], Then]
    uses: int


class _Messages:
    """What comes from one side, message by message; the end of a chunk may be that of none."""

    def __init__(self) -> None:
        self._rest = b""

    def whole(self, chunk: bytes) -> Iterator[bytes]:
        come, begin = self._rest + chunk, 0
        while line := _LINE.match(come, begin):
            body = 0 if line[1] is None else int(line[1]) + len(b"\r\n")
            if line.end() + body > len(come):
                break
            yield come[begin : line.end() + body]
            begin = line.end() + body
        self._rest = come[begin:]


@dataclass
class FaultProxy:
    upstream: tuple[str, int]
    port: int = 0
    to_server: list[_Rule] = field(default_factory=list)
    to_client: list[_Rule] = field(default_factory=list)
    turned_away: int = 0
    _inbox_sid: bytes = b""
    _sids: dict[bytes, bytes] = field(default_factory=dict)
    _admitting: bool = True
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _links: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def is_used(self) -> bool:
        return bool(self._links)

    def when_client_sends(self, pattern: bytes, act: Callable[[], Then], *, uses: int = 1) -> None:
        self.to_server.append(_Rule(re.compile(pattern, re.DOTALL), lambda _, __: act(), uses))

    def when_server_sends(self, pattern: bytes, act: Callable[[], Then], *, uses: int = 1) -> None:
        self.to_client.append(_Rule(re.compile(pattern, re.DOTALL), lambda _, __: act(), uses))

    def freeze_after(self, pattern: bytes) -> None:
        """Let through what the client sends then, and nothing that follows, either way."""

        def freeze() -> Then:
            self.freeze()
            return Then.FORWARD

        self.when_client_sends(pattern, freeze)

    def on_message(self, note: Callable[[str], None]) -> None:
        """`note` gets the subject of each message that clients send from now on."""

        def look(message: bytes) -> None:
            if sent := re.match(rb"H?PUB (\S+) ", message):
                note(sent[1].decode())

        self.on_bytes(look)

    def on_bytes(self, note: Callable[[bytes], None]) -> None:
        """`note` gets everything that clients send from now on, in the order of the wire."""

        def look(message: re.Match[bytes], _: asyncio.StreamWriter) -> Then:
            note(message[0])
            return Then.FORWARD

        self.to_server.append(_Rule(re.compile(rb".+", re.DOTALL), look, sys.maxsize))

    def on_answers(self, note: Callable[[str, bytes], None], *, uses: int) -> None:
        """`note` gets the reply subject and body of the next `uses` answers to JetStream."""

        def look(answer: re.Match[bytes], _: asyncio.StreamWriter) -> Then:
            note(answer[1].decode(), answer[2])
            return Then.FORWARD

        self.to_server.append(_Rule(_ANSWER, look, uses))

    def answer_reads_with_404(self, times: int) -> Callable[[], int]:
        """Lie like a replica that lags behind; returns a function that counts the lies."""
        return self.answer_reads_with(b"NATS/1.0 404 Message Not Found\r\n\r\n", b"", times)

    def answer_reads_with(
        self, headers: bytes, data: bytes, times: int, *, stream: bytes = b"JOBS"
    ) -> Callable[[], int]:
        told = 0

        def lie(read: re.Match[bytes], client: asyncio.StreamWriter) -> Then:
            nonlocal told
            told += 1
            sizes = b"%d %d" % (len(headers), len(headers) + len(data))
            line = b"HMSG %s %s %s\r\n" % (read[1], self._inbox_sid, sizes)
            client.write(line + headers + data + b"\r\n")
            return Then.SWALLOW

        direct_get = re.compile(rb"^PUB \$JS\.API\.DIRECT\.GET\.%s\.\S+ (\S+) 0\r\n\r\n$" % stream)
        self.to_server.append(_Rule(direct_get, lie, times))
        return lambda: told

    def answer_pulls_with(self, status: bytes, times: int) -> Callable[[], int]:
        """In the server's name, which never hears of the pull; returns a count as above."""
        told = 0
        headers = b"NATS/1.0 %s\r\n\r\n" % status

        def lie(pull: re.Match[bytes], client: asyncio.StreamWriter) -> Then:
            nonlocal told
            told += 1
            sizes = b"%d %d" % (len(headers), len(headers))
            client.write(b"HMSG %s %s %s\r\n" % (pull[1], self._sids[pull[1]], sizes))
            client.write(headers + b"\r\n")
            return Then.SWALLOW

        asked = re.compile(rb"PUB \$JS\.API\.CONSUMER\.MSG\.NEXT\.\S+ (\S+) \d+\r\n")
        self.to_server.append(_Rule(asked, lie, times))
        return lambda: told

    def _learn(self, message: bytes) -> None:
        """The first subscription of a connection of ours is the inbox of its answers."""
        subscribed = re.match(rb"SUB (\S+) +(\d+)\r\n", message)
        if subscribed is None:
            return
        self._sids[subscribed[1]] = subscribed[2]
        if subscribed[1].endswith(b".>") and not self._inbox_sid:
            self._inbox_sid = subscribed[2]

    def freeze(self) -> None:
        """Hold everything back, both ways, without closing anything."""
        self._flowing.clear()

    def hang_up(self) -> None:
        """Say that nothing more comes, and take nothing more."""
        self.freeze()
        for link in self._links:
            link.write_eof()

    def thaw(self) -> None:
        self._flowing.set()

    def refuse(self) -> None:
        """Cuts the connection and accepts no other until admit()."""
        self._admitting = False
        self.cut()

    def admit(self) -> None:
        self._admitting = True

    def cut(self) -> None:
        for link in list(self._links):
            link.close()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._links.add(writer)
        self._spawn(self._lead(reader, writer))

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """To the server, if it is there and anybody is let in."""
        try:
            up_reader, up_writer = await asyncio.open_connection(*self.upstream)
        except OSError:
            self._drop(writer)
            return
        self._links.add(up_writer)
        if not self._admitting:
            self.turned_away += 1
            self._drop(writer, up_writer)
            return
        self._spawn(self._pump(reader, up_writer, writer, self.to_server))
        self._spawn(self._pump(up_reader, writer, up_writer, self.to_client))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _drop(self, *links: asyncio.StreamWriter) -> None:
        for link in links:
            link.close()
            self._links.discard(link)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        rules: list[_Rule],
    ) -> None:
        with suppress(ConnectionError):
            await self._pass_on(source, sink, back, rules)
        self._drop(sink, back)

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        rules: list[_Rule],
    ) -> None:
        messages = _Messages()
        while chunk := await source.read(65536):
            for message in messages.whole(chunk):
                await self._flowing.wait()
                if rules is self.to_server:
                    self._learn(message)
                then = _judge(rules, message, back)
                if then is Then.CUT:
                    return
                if then is Then.FORWARD:
                    sink.write(message)
            await sink.drain()

    async def close(self) -> None:
        self.thaw()
        links = list(self._links)
        self.refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(link.wait_closed() for link in links), return_exceptions=True)


def _judge(rules: list[_Rule], message: bytes, back: asyncio.StreamWriter) -> Then:
    for rule in rules:
        found = rule.pattern.search(message) if rule.uses > 0 else None
        if found:
            rule.uses -= 1
            return rule.act(found, back)
    return Then.FORWARD


@asynccontextmanager
async def fault_proxy(url: str) -> AsyncIterator[FaultProxy]:
    parts = urlsplit(url)
    proxy = FaultProxy((parts.hostname or "127.0.0.1", parts.port or 4222))
    proxy.thaw()
    listener = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        await proxy.close()
