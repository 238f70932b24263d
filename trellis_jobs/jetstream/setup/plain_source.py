"""How a work queue that reads the log without a consumer, as before 2.14, gets lanes.

The server takes a plain source with other transforms for a new one, and derives from the work queue
when the new one starts. Jobs that are being copied at that moment are lost (up to 1,010 of 50,600,
in 7 of 18 tries), and all jobs since the oldest work message are copied again. So this module sets
the sequence at which the source starts, and removes it when the source has started, because after a
restart the server would start there again.

A process that dies in between loses no job: the next `infra apply` removes the sequence.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.features import LEVEL_2_11
from trellis_jobs.contract.topology import LOG, WORK, Config, Topology, nanoseconds
from trellis_jobs.errors import InfrastructureMismatch
from trellis_jobs.jetstream.client import api

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection

START: Final = "opt_start_seq"
_INFO: Final = f"STREAM.INFO.{WORK}"
# The log sends a heartbeat to the source every second.
_MAX_SILENCE: Final = nanoseconds(timedelta(seconds=2))
_POLL_INTERVAL: Final = 0.1
# A source copies an event within milliseconds while it is up.
_COPY_POLLS: Final = round(2.0 / _POLL_INTERVAL)
_MAX_POLLS: Final = round(30.0 / _POLL_INTERVAL)


def can_add_lanes(features: Features) -> bool:
    """False for 2.10: a source that has a start sequence may stop copying (seen with 2.10.26)."""
    return features.level >= LEVEL_2_11


async def add_lanes(connection: Connection, topology: Topology) -> None:
    """Take the remaining steps; a process that died may have taken the first."""
    [wanted] = topology.work()["sources"]
    transforms = wanted["subject_transforms"]
    [found] = (await api.request(connection, _INFO))["config"]["sources"]
    if found["subject_transforms"] != transforms:
        copied = await _wait_until_copied(connection)
        await _set_source(connection, {"subject_transforms": transforms, START: copied + 1})
    await _poll(connection, lambda source: is_up(source, transforms), polls=1)
    await _set_source(connection, {"subject_transforms": transforms})


async def _wait_until_copied(connection: Connection) -> int:
    """Returns a sequence of the log up to which the work queue has everything."""
    newest = int((await api.request(connection, f"STREAM.INFO.{LOG}"))["state"]["last_seq"])
    await _poll(connection, is_up, polls=_COPY_POLLS)
    await _poll(connection, lambda source: is_up(source) and source["lag"] == 0, polls=1)
    return newest


def is_up(source: dict[str, Any], transforms: list[Config] | None = None) -> bool:
    """Whether a source, as the server reports it, reads the log, and with these transforms.

    `active` is how long ago it last heard from the log, and negative if it never has.
    """
    has_started = 0 <= int(source["active"]) < _MAX_SILENCE
    return has_started and transforms in (None, source["subject_transforms"])


async def _poll(
    connection: Connection, is_fact: Callable[[dict[str, Any]], bool], *, polls: int
) -> None:
    """Waits until this is a fact in as many polls one after the other."""
    seen = 0
    for _ in range(_MAX_POLLS):
        sources = (await api.request(connection, _INFO)).get("sources") or ()
        seen = seen + 1 if sources and all(map(is_fact, sources)) else 0
        if seen == polls:
            return
        await asyncio.sleep(_POLL_INTERVAL)
    raise InfrastructureMismatch(
        f"stream {WORK}",
        ("its source is down, or has many jobs to copy: run `trellis-jobs infra apply` later",),
    )


async def _set_source(connection: Connection, settings: Config) -> None:
    config = (await api.request(connection, _INFO))["config"]
    [found] = config["sources"]
    kept = {key: value for key, value in found.items() if key != START}
    await api.request(connection, f"STREAM.UPDATE.{WORK}", config | {"sources": [kept | settings]})
