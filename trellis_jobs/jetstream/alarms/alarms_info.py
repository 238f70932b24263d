"""The alarms of a service as the server reports them, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.contract.topology import DUE_CONSUMER, alarms_stream
from trellis_jobs.errors import RequestRefused, StreamMissing
from trellis_jobs.jetstream.client import api

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmsInfo:
    """`has_stream` is False if the service has no stream for alarms.

    `waiting` counts alarms that have come and that no worker has received. `in_progress` counts
    those that workers have received and not answered, and `waiting_pulls` the workers that wait for
    alarms. All are 0 if no worker of the service ever waited for alarms.
    """

    has_stream: bool = True
    waiting: int = 0
    in_progress: int = 0
    waiting_pulls: int = 0

    @property
    def is_received(self) -> bool:
        """Whether a worker of the service receives alarms."""
        return bool(self.in_progress or self.waiting_pulls)


async def read_alarms_info(connection: Connection, service: str) -> AlarmsInfo:
    """Raises NotPermitted."""
    stream = alarms_stream(service)
    try:
        info: dict[str, Any] = await api.request(
            connection, f"CONSUMER.INFO.{stream}.{DUE_CONSUMER}"
        )
    except StreamMissing:
        return AlarmsInfo(has_stream=False)
    except RequestRefused as refusal:
        if refusal.code != api.CONSUMER_NOT_FOUND:
            raise
        return AlarmsInfo()
    return AlarmsInfo(
        waiting=int(info.get("num_pending", 0)),
        in_progress=int(info.get("num_ack_pending", 0)),
        waiting_pulls=int(info.get("num_waiting", 0)),
    )
