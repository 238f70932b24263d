"""Deletes readers of the log that were left behind: a service may make them, and not delete them.

The library's own readers are removed by the server a second after their last use. One that has not
been used for an hour was made to stay, and costs the server memory: 3,000 of them were made by one
service. Durable consumers are somebody's, and are left to operators: `doctor` counts them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.setup.readers import Reader, delete_reader, list_readers

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

INTERVAL: Final = timedelta(minutes=10)
ABANDONED_AFTER: Final = timedelta(hours=1)


def is_abandoned(reader: Reader) -> bool:
    return reader.stream == LOG and not reader.is_durable and reader.unused_for > ABANDONED_AFTER


@dataclass(frozen=True, slots=True)
class AbandonedReaders:
    """Any number of replicas may sweep at once."""

    connection: Connection
    went_on: Callable[[], None]

    async def sweep(self) -> None:
        try:
            found = [each for each in await list_readers(self.connection) if is_abandoned(each)]
        except NotPermitted as denied:
            # Permissions that an older version printed lack it, and everything else works.
            log.info("readers that were left behind are not looked for: %s", denied)
            return
        for reader in found:
            await delete_reader(self.connection, reader)
            self.went_on()
        if found:
            log.warning(
                "deleted %d readers of the log that were not used for an hour (services: %s)",
                len(found),
                ", ".join(sorted({each.service for each in found})),
            )
