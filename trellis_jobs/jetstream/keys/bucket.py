"""The bucket of key states: moves are applied with compare-and-set, and updates wake waiters.

Replicas serve reads and may lag (with three replicas, 5 % of the reads after an own write did). A
move that changes nothing is not checked by a write, so each read must be at least as new as what
this process has written, was refused for, or was notified about.
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import orjson

from trellis_jobs.errors import (
    InfrastructureMissing,
    KeyContention,
    KeyStateMalformed,
    NotConfirmed,
    RequestRefused,
)
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.pub_ack import read_pub_ack
from trellis_jobs.jetstream.client.timeouts import ACK_TIMEOUT, FAILOVER_TIMEOUT, MAX_UNANSWERED
from trellis_jobs.jetstream.keys.write_coalescer import WriteCoalescer
from trellis_jobs.model import subjects
from trellis_jobs.model.bounded_dict import BoundedDict
from trellis_jobs.model.values import replace
from trellis_jobs.wire import headers as h
from trellis_jobs.wire import keys as wire
from trellis_jobs.wire.keys import Malformed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.keys.write_coalescer import Moves
    from trellis_jobs.model.keys.state import KeyAddress, KeyState

_MAX_ATTEMPTS: Final = 200
_MAX_RETRY_DELAY: Final = 0.05
_POLL_INTERVAL: Final = 0.1
# Delays between reads that are too old. After the last, the key was purged or the bucket recreated.
_REPLICA_LAG_DELAYS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, *[0.1] * 20)
_STORE_DELAY: Final = 0.3
_MAX_REVISIONS: Final = 20_000
_MAX_CACHED_STATES: Final = 4_000
_SEQUENCE: Final = re.compile(r"[0-9]{1,20}")
# Names the writer of a state: a process ignores notifications about its own writes.
_WRITER: Final = "Trellis-Writer"
_DELETED: Final = frozenset({"DEL", "PURGE"})


class Move(Protocol):
    """The result of a move on a key state: the next state; its class tells what happened."""

    @property
    def state(self) -> KeyState: ...


M = TypeVar("M", bound=Move)


@dataclass(frozen=True, slots=True)
class Stored:
    """With `revision` 0 and no data the key was never written."""

    revision: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class _CachedState:
    """A state at a revision; a write based on it succeeds only if it is still the newest."""

    revision: int
    state: KeyState
    written: wire.WaitingEntryCache = field(default_factory=wire.WaitingEntryCache)


class KeyBucket:
    def __init__(self, connection: Connection, now: Callable[[], datetime]) -> None:
        self._connection = connection
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._min_revisions: BoundedDict[str, int] = BoundedDict(_MAX_REVISIONS)
        self._cache: BoundedDict[str, _CachedState] = BoundedDict(_MAX_CACHED_STATES)
        self._coalescer = WriteCoalescer(self._apply_moves)
        self._watchers: dict[tuple[str, str], Callable[[str, int | None], None]] = {}
        self._writer = secrets.token_hex(8)
        self.conflicts = 0
        # Notifications sent during a disconnect are lost, so cached states may be old.
        connection.on_reconnect(self._cache.clear)

    async def read(self, empty: KeyState) -> KeyState:
        """Returns the state with the limits that `empty` declares, or `empty` if there is none."""
        return (await self._read(empty)).state

    async def apply(self, empty: KeyState, move: Callable[[KeyState], M]) -> M:
        """Read, move, write; start over when another process wrote in between.

        The cached state is tried without a read: if it is not the newest any more, the server
        refuses the write. A move that writes nothing needs a fresh read. If the reply to a write
        is lost, the state is read before the write is repeated. Moves of one process on one key
        run one at a time, and those that wait are written together.
        """
        moved: M = await self._coalescer.apply(empty, move)
        return moved

    async def read_cached(self, empty: KeyState) -> KeyState:
        """Like read(), but from the cache if possible, which is old after a lost notification."""
        cached = self._from_cache(empty)
        return await self.read(empty) if cached is None else cached.state

    async def watch(
        self, queue: tuple[str, str, str], hint: Callable[[str, int | None], None]
    ) -> Callable[[], Awaitable[None]]:
        """Call `hint` for each update of a queue's keys, with the key's hash and active jobs.

        It is only a hint (D22): the server may have refused the write. Returns a function that
        ends the watch.
        `queue`: service, type and bucket.
        """
        service, job_type, _ = queue
        subject = subjects.keys_of_type(*queue)

        def receive(message: Message) -> None:
            headers = message.headers or {}
            if headers.get(_WRITER) == self._writer:
                return  # _notify() does it once the write is known to be stored.
            key_hash, running = message.subject.rsplit(".", 1)[-1], _count_active(message.data)
            # Stored or refused: the key is now newer than the revision that the write expected.
            expected = headers.get(h.EXPECTED_SEQUENCE, "")
            if _SEQUENCE.fullmatch(expected):
                self._require_revision(message.subject, int(expected) + 1)
            else:
                invalidate(message.subject, key_hash)
                # The notification may arrive before the write is stored, so invalidate again later.
                self._loop.call_later(_STORE_DELAY, invalidate, message.subject, key_hash)
            hint(key_hash, running)

        def invalidate(subject: str, key_hash: str) -> None:
            self._cache.pop(subject, None)
            hint(key_hash, None)

        self._watchers[service, job_type] = hint
        subscription = await self._connection.subscribe(subject, receive)
        return partial(self._connection.unsubscribe, subscription)

    async def _apply_moves(self, empty: KeyState, moves: Moves) -> list[Move]:
        """Apply all moves with one write, or none of them."""
        cached = self._from_cache(empty)
        if cached is not None:
            applied = _chain(cached.state, moves)
            if applied.all_change and await self._write(cached, applied.state):
                return applied.moved
        unanswered, started_at = 0, self._loop.time()
        for attempt in range(_MAX_ATTEMPTS):
            before = await self._read(empty)
            applied = _chain(before.state, moves)
            if applied.state is before.state:
                return applied.moved
            result = await self._write(before, applied.state)
            if result:
                return applied.moved
            unanswered += result is None
            if unanswered == MAX_UNANSWERED:
                raise NotConfirmed(f"a write of {empty.display}", self._loop.time() - started_at)
            await asyncio.sleep(random.uniform(0, min(0.001 * attempt, _MAX_RETRY_DELAY)))  # noqa: S311
        raise KeyContention(empty.display, _MAX_ATTEMPTS)

    def _from_cache(self, empty: KeyState) -> _CachedState | None:
        subject = subjects.key_state(empty.address)
        cached = self._cache.get(subject)
        if cached is None or cached.revision < self._min_revisions.get(subject, 0):
            return None
        return _CachedState(
            cached.revision, _with_declared_limits(empty, cached.state), cached.written
        )

    async def _read(self, empty: KeyState) -> _CachedState:
        stored = await self._get(empty.address)
        if stored.data is None:
            return _CachedState(stored.revision, empty)
        found = wire.decode(stored.data, expected=empty.address)
        if isinstance(found, Malformed):
            raise KeyStateMalformed(empty.display, subjects.key_state(empty.address), found.reason)
        cached = _CachedState(stored.revision, _with_declared_limits(empty, found))
        self._store_in_cache(cached)
        return cached

    async def _get(self, address: KeyAddress) -> Stored:
        subject = subjects.key_state(address)
        for delay in _REPLICA_LAG_DELAYS:
            stored = await self._newest(subject, address.bucket)
            if stored.revision >= self._min_revisions.get(subject, 0):
                return stored
            await asyncio.sleep(delay)
        self._min_revisions.pop(subject, None)
        return await self._newest(subject, address.bucket)

    async def _newest(self, subject: str, bucket: str) -> Stored:
        stream = subjects.stream_of_bucket(bucket)
        read = self._connection.api(f"DIRECT.GET.{stream}.{subject}")
        started_at = self._loop.time()
        for _ in range(MAX_UNANSWERED):
            try:
                return read_stored(subject, await self._request(read))
            except ConnectionLost as error:
                await self._wait_until_connected(f"a read of {subject}", error)
        raise NotConfirmed(f"a read of {subject}", self._loop.time() - started_at)

    async def _write(self, before: _CachedState, state: KeyState) -> bool | None:
        """Returns False when refused, and None when no reply came and the write is not stored."""
        subject = subjects.key_state(state.address)
        written = replace(state, updated_at=self._now())
        data = wire.encode(written, before.written)
        try:
            headers = {h.EXPECTED_SEQUENCE: str(before.revision), _WRITER: self._writer}
            message = await self._request(subject, data, headers)
        except ConnectionLost as error:
            await self._wait_until_connected(f"a write of {subject}", error)
            if (await self._get(state.address)).data != data:
                return None
            self._notify(written)
            return True
        answer = read_pub_ack(subject, message, _stream_of(subject))
        if isinstance(answer, int):
            self._require_revision(subject, answer)
            self._store_in_cache(_CachedState(answer, written, before.written))
            self._notify(written)
            return True
        self.conflicts += 1
        if answer is not None:
            self._require_revision(subject, answer.last_sequence)
        return False

    async def _request(
        self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None
    ) -> Message:
        missing_deadline = self._loop.time() + FAILOVER_TIMEOUT
        while True:
            try:
                return await self._connection.request(
                    subject, data, headers=headers, timeout=ACK_TIMEOUT
                )
            except NoResponders:
                if self._loop.time() > missing_deadline:
                    raise InfrastructureMissing(f"bucket stream {_stream_of(subject)}") from None
            await asyncio.sleep(_POLL_INTERVAL)

    async def _wait_until_connected(self, what: str, error: ConnectionLost) -> None:
        if self._connection.is_closed:
            raise NotConfirmed(what, None) from error
        await self._connection.wait_until_connected()

    def _require_revision(self, subject: str, revision: int) -> None:
        self._min_revisions[subject] = max(self._min_revisions.get(subject, 0), revision)

    def _notify(self, written: KeyState) -> None:
        hint = self._watchers.get((written.address.service, written.address.job_type))
        if hint is not None:
            hint(written.address.hash, len(written.active))

    def _store_in_cache(self, cached: _CachedState) -> None:
        self._cache[subjects.key_state(cached.state.address)] = cached


def _stream_of(subject: str) -> str:
    """Returns the bucket's stream, for the subject of a key or of a read of it."""
    return subjects.stream_of_bucket(subject.partition("$KV.")[2].partition(".")[0])


@dataclass(frozen=True, slots=True)
class _Chain:
    """The results of successive moves, and the state after the last."""

    moved: list[Move]
    state: KeyState
    all_change: bool


def _chain(state: KeyState, moves: Moves) -> _Chain:
    applied: list[Move] = []
    all_change = True
    for move in moves:
        moved: Move = move(state)
        all_change = all_change and moved.state is not state
        state = moved.state
        applied.append(moved)
    return _Chain(applied, state, all_change)


def _count_active(data: bytes) -> int | None:
    """Returns the number of active jobs in a written state, or None if it is malformed."""
    try:
        active = orjson.loads(data)["active"]
    except (ValueError, KeyError, TypeError):
        return None
    return len(active) if isinstance(active, list) else None


def _with_declared_limits(empty: KeyState, found: KeyState) -> KeyState:
    """The limits that this process declares win over those in the stored state."""
    if (found.max_active, found.max_queued) == (empty.max_active, empty.max_queued):
        return found
    return replace(found, max_active=empty.max_active, max_queued=empty.max_queued)


def read_stored(subject: str, message: Message) -> Stored:
    """Reads the reply to a direct get.

    The server's own headers come last; a stored message may have forged ones before them.
    """
    headers = message.headers or {}
    revision = headers.get("Nats-Sequence")
    if revision is None:
        status = headers.get("Status", "")
        if status == "404":
            return Stored(0, None)
        raise RequestRefused(
            f"a read of {subject}", _number(status) or 0, headers.get("Description", "")
        )
    sequence = _number(revision.rsplit("\n", 1)[-1])
    if sequence is None:
        raise RequestRefused(f"a read of {subject}", 0, f"the sequence is not a number: {revision}")
    delete_after_use = headers.get("KV-Operation") in _DELETED
    return Stored(sequence, None if delete_after_use else message.data)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
