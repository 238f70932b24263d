"""Collect the facts of an installation; a check that fails does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.doctor import Section
from jobs_admin.doctor import rules
from jobs_admin.doctor.findings import broken, diagnosis, fine, note
from trellis_jobs.contract.topology import LOG, Topology, alarms_stream
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import (
    InboxNotPermitted,
    InfrastructureMissing,
    JobsError,
    NotPermitted,
)
from trellis_jobs.jetstream.client import server_info
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.stream_info import stream_size
from trellis_jobs.jetstream.setup import storage_info
from trellis_jobs.jetstream.setup.alarms_streams import services_with_alarms
from trellis_jobs.jetstream.setup.features import jetstream_report, syncs_every_write
from trellis_jobs.jetstream.setup.plan import plan_streams
from trellis_jobs.jetstream.setup.readers import list_readers
from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api.views.doctor import Diagnosis, Finding
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions
    from trellis_jobs.jetstream.client.connection import Connection

CHECK_TIMEOUT: Final = 3.0

CheckStep = Callable[[], Awaitable[list["Finding"]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The server, and the credentials that the checks use.

    `system_account` are the credentials to read the settings of the server itself.
    """

    access: ConnectOptions
    connection: Connection
    features: Features
    system_account: str | None = None

    def server_checks(self) -> dict[str, CheckStep]:
        """The checks that need only the connection, by the name of their section."""
        return {
            "server": partial(_server, self),
            "streams": partial(_streams, self),
            "readers": partial(_readers, self),
            "clock": partial(_clock, self),
        }


async def diagnose(
    installation: Installation, steps: Mapping[str, CheckStep], before: tuple[Section, ...] = ()
) -> Diagnosis:
    """Run the steps at the same time; `before` are sections that are known already."""
    requests = (_section(name, step, installation) for name, step in steps.items())
    results = await asyncio.gather(*requests)
    not_seen = [section.name for section, is_checked in results if not is_checked]
    return diagnosis((*before, *(section for section, _ in results)), not_seen)


async def _section(name: str, step: CheckStep, installation: Installation) -> tuple[Section, bool]:
    """The section, and whether the credentials permit to check it."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            return Section(name=name, findings=tuple(await step())), True
    except InboxNotPermitted as denied:
        remedy = f"permit these credentials to subscribe to {denied.subject}, to receive replies"
        return _only(name, broken(str(denied), remedy)), False
    except NotPermitted as denied:
        return _only(name, note(f"not checked: {denied}")), False
    except InfrastructureMissing as missing:
        remedy = missing.remedy or rules.CREATE_MISSING
        return _only(name, broken(f"not checked: {missing.what} does not exist", remedy)), True
    except (JobsError, ConnectionLost) as error:
        return _only(name, broken(str(error), f"fix this first: {error}")), True
    except TimeoutError:
        return _only(name, _timed_out(installation)), True


def _only(name: str, finding: Finding) -> Section:
    return Section(name=name, findings=(finding,))


def _timed_out(installation: Installation) -> Finding:
    inbox = installation.access.inbox_prefix or "_INBOX"
    waited = format_duration(timedelta(seconds=CHECK_TIMEOUT))
    return broken(
        f"the server did not answer within {waited}",
        f"check that these credentials may subscribe to {inbox}.>, and the load of the server",
    )


async def _server(installation: Installation) -> list[Finding]:
    greeting, features = installation.connection.server_info, installation.features
    cluster = f", cluster {greeting['cluster']}" if greeting.get("cluster") else ""
    report = None
    if installation.system_account is not None:
        report = await jetstream_report(installation.access, installation.system_account)
    return [
        fine(f"nats-server {features.version}{cluster}"),
        *rules.check_features(features),
        rules.check_sync(syncs_every_write(report)),
        *rules.check_usages(storage_info.of_server(report or {})),
    ]


async def _streams(installation: Installation) -> list[Finding]:
    connection = installation.connection
    services = await services_with_alarms(connection)
    topology = Topology(installation.features, alarms_of=services)
    changes = await plan_streams(connection, topology)
    names = [change.name for change in changes if "/" not in change.name]
    requests = (server_info.replication_of(connection, name) for name in names)
    streams = [each for each in await asyncio.gather(*requests) if each is not None]
    log = await stream_size(connection, LOG)
    return [
        *rules.check_streams(changes),
        *rules.check_dropping_limits(log.dropping if log else ()),
        *rules.check_replication(streams, connection.server_info.get("cluster")),
        *rules.check_usages(await storage_info.usages(connection, map(alarms_stream, services))),
    ]


async def _readers(installation: Installation) -> list[Finding]:
    return rules.check_readers(await list_readers(installation.connection))


async def _clock(installation: Installation) -> list[Finding]:
    ahead = await server_info.clock_difference(installation.connection, utc_now)
    return [rules.check_clock(ahead)]
