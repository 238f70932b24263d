"""Finds out what the credentials permit, by requests that change nothing.

The server refuses each request for another reason than missing permissions (a body that
contradicts its subject, a consumer that does not exist, an unexpected stream), or the admin
runtime replies without changing anything.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG, WORK
from trellis_jobs.errors import InboxNotPermitted, NotPermitted
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire.headers import PERMISSION_CHECK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection

_REQUEST_TIMEOUT: Final = 1.0
_PROBE_NAME: Final = "trellis-doctor"
_CONFLICTING_BODY: Final = {"stream_name": "none", "name": "none"}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`allowed` is None when no reply came, so that it is unknown."""

    name: str
    subject: str
    allowed: bool | None


@dataclass(frozen=True, slots=True)
class _Probe:
    name: str
    subject: str
    body: dict[str, Any] | None = None
    headers: dict[str, str] | None = None


async def probe_permissions(
    connection: Connection, features: Features, services: Iterable[str]
) -> list[ProbeResult]:
    probes = [*_rpc_probes(), *_api_probes(connection, features), *map(_create_probe, services)]
    return list(await asyncio.gather(*(_run(connection, probe) for probe in probes)))


def _rpc_probes() -> list[_Probe]:
    return [
        _Probe("ask the admin runtime", subjects.rpc("Jobs.Health"), {}),
        _Probe(
            "change jobs through it",
            subjects.rpc("Jobs.Cancel"),
            {},
            headers={PERMISSION_CHECK: "true"},
        ),
    ]


def _api_probes(connection: Connection, features: Features) -> list[_Probe]:
    probes = [
        _Probe("see streams", f"STREAM.INFO.{LOG}"),
        _Probe("list queues", f"CONSUMER.LIST.{WORK}"),
        _Probe(
            "read all jobs from the log",
            f"CONSUMER.CREATE.{LOG}.{_PROBE_NAME}.{subjects.ALL_EVENTS}",
            _CONFLICTING_BODY,
        ),
        _Probe("make and change streams", f"STREAM.UPDATE.{LOG}", _CONFLICTING_BODY),
        _Probe(
            "make consumers of queues",
            f"CONSUMER.CREATE.{WORK}.{_PROBE_NAME}."
            f"{subjects.work_of_type(_PROBE_NAME, _PROBE_NAME)}",
            _CONFLICTING_BODY,
        ),
    ]
    if features.consumer_pause:
        probes.append(_Probe("pause queues", f"CONSUMER.PAUSE.{WORK}.{_PROBE_NAME}"))
    return [replace(probe, subject=connection.api(probe.subject)) for probe in probes]


def _create_probe(service: str) -> _Probe:
    """The stream refuses a message with another stream's name in Nats-Expected-Stream."""
    subject = subjects.lifecycle(JobAddress(service, _PROBE_NAME, _PROBE_NAME), EventKind.CREATED)
    return _Probe(f"create jobs of {service}", subject, headers={"Nats-Expected-Stream": "none"})


async def _run(connection: Connection, probe: _Probe) -> ProbeResult:
    data = b"" if probe.body is None else orjson.dumps(probe.body)
    allowed: bool | None = True
    try:
        await connection.request(
            probe.subject, data, headers=probe.headers, timeout=_REQUEST_TIMEOUT
        )
    except (ConnectionLost, InboxNotPermitted):
        allowed = None
    except NotPermitted:
        allowed = False
    except NoResponders:
        allowed = True  # the server accepted the publish, but has no subscriber
    return ProbeResult(probe.name, probe.subject, allowed)
