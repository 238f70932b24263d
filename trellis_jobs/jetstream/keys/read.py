"""Reads a key's state from the bucket, for readers that never change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.stored_message import moment_of, nanoseconds_of
from trellis_jobs.jetstream.keys.bucket import read_stored
from trellis_jobs.model import subjects
from trellis_jobs.wire import keys as wire

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.keys.state import KeyAddress, KeyState


@dataclass(frozen=True, slots=True)
class StoredKey:
    """`at` is the server's time when it was stored."""

    state: KeyState
    at: datetime


async def read_key(
    connection: Connection, address: KeyAddress
) -> StoredKey | wire.Malformed | None:
    """Returns the state with the limits that it was written with, or None if there is none."""
    subject = subjects.key_state(address)
    try:
        message = await api.newest(connection, subjects.stream_of_bucket(address.bucket), subject)
    except (ConnectionLost, NoResponders) as error:
        raise NotConfirmed(f"a read of {subject}", api.TIMEOUT) from error
    stored = read_stored(subject, message)
    if stored.data is None:
        return None
    found = wire.decode(stored.data, expected=address)
    if isinstance(found, wire.Malformed):
        return found
    # The server's own header comes last; a stored message may have a forged one before it.
    at = (message.headers or {})["Nats-Time-Stamp"].rsplit("\n", 1)[-1]
    return StoredKey(found, moment_of(nanoseconds_of(at)))
