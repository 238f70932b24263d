"""What these credentials let one do, tried with requests that can change nothing.

Each is one that the server refuses for another reason than a lack of rights (a body that
contradicts its subject, a consumer that there is not, a stream it is not for), or one that the
admin runtime answers without doing anything.
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

_PATIENCE: Final = 1.0
_NOBODY: Final = "trellis-doctor"
_ANOTHER: Final = {"stream_name": "none", "name": "none"}


@dataclass(frozen=True, slots=True)
class Ability:
    """`allowed` is None where nothing answered, so that nobody knows."""

    name: str
    subject: str
    allowed: bool | None


@dataclass(frozen=True, slots=True)
class _Try:
    name: str
    subject: str
    body: dict[str, Any] | None = None
    headers: dict[str, str] | None = None


async def abilities(
    connection: Connection, features: Features, services: Iterable[str]
) -> list[Ability]:
    tries = [*_requests(), *_calls(connection, features), *map(_creating, services)]
    return list(await asyncio.gather(*(_attempt(connection, each) for each in tries)))


def _requests() -> list[_Try]:
    return [
        _Try("ask the admin runtime", subjects.rpc("Jobs.Health"), {}),
        _Try(
            "change jobs through it",
            subjects.rpc("Jobs.Cancel"),
            {},
            headers={PERMISSION_CHECK: "true"},
        ),
    ]


def _calls(connection: Connection, features: Features) -> list[_Try]:
    found = [
        _Try("see streams", f"STREAM.INFO.{LOG}"),
        _Try("list queues", f"CONSUMER.LIST.{WORK}"),
        _Try(
            "read all jobs from the log",
            f"CONSUMER.CREATE.{LOG}.{_NOBODY}.{subjects.ALL_EVENTS}",
            _ANOTHER,
        ),
        _Try("make and change streams", f"STREAM.UPDATE.{LOG}", _ANOTHER),
        _Try(
            "make consumers of queues",
            f"CONSUMER.CREATE.{WORK}.{_NOBODY}.{subjects.work_of_type(_NOBODY, _NOBODY)}",
            _ANOTHER,
        ),
    ]
    if features.consumer_pause:
        found.append(_Try("pause queues", f"CONSUMER.PAUSE.{WORK}.{_NOBODY}"))
    return [replace(each, subject=connection.api(each.subject)) for each in found]


def _creating(service: str) -> _Try:
    """The stream refuses what is meant for another."""
    subject = subjects.lifecycle(JobAddress(service, _NOBODY, _NOBODY), EventKind.CREATED)
    return _Try(f"create jobs of {service}", subject, headers={"Nats-Expected-Stream": "none"})


async def _attempt(connection: Connection, each: _Try) -> Ability:
    data = b"" if each.body is None else orjson.dumps(each.body)
    allowed: bool | None = True
    try:
        await connection.ask(each.subject, data, headers=each.headers, timeout=_PATIENCE)
    except (ConnectionLost, InboxNotPermitted):
        allowed = None
    except NotPermitted:
        allowed = False
    except NoResponders:
        allowed = True  # it got as far as nobody being there
    return Ability(each.name, each.subject, allowed)
