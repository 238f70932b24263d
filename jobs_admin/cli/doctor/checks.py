"""Collect the facts of an installation; a check that fails does not stop the others."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.connection import DEFAULT_TIMEOUT
from jobs_admin.cli.doctor import rules
from jobs_admin.cli.doctor.findings import (
    Diagnosis,
    Finding,
    Section,
    broken,
    fine,
    note,
    warning,
)
from jobs_admin.cli.exit_codes import exit_code_for
from jobs_admin.cli.queues.snapshot import take_queue_snapshot
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.features import Features
from trellis_jobs.contract.topology import Topology
from trellis_jobs.environment import own_version, utc_now
from trellis_jobs.errors import (
    InboxNotPermitted,
    InfrastructureError,
    InfrastructureMissing,
    JobsError,
    NoAnswer,
    NotPermitted,
    ServiceMissing,
)
from trellis_jobs.jetstream.client import server_info
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost
from trellis_jobs.jetstream.setup import storage_info
from trellis_jobs.jetstream.setup.features import (
    detect_features,
    jetstream_report,
    level_of,
    syncs_every_write,
)
from trellis_jobs.jetstream.setup.permission_probe import probe_permissions
from trellis_jobs.jetstream.setup.plan import plan_streams
from trellis_jobs.jetstream.setup.readers import list_readers
from trellis_jobs.model.durations import format_duration

_ADMIN_TIMEOUT: Final = 1.0
_MAX_SERVICES: Final = 20
_NO_DAEMON: Final = (
    "run `trellis-jobs admin serve`: without it, deadlines are not enforced and lost work is not "
    "recovered"
)

_NO_PERMISSION: Final = (
    "use credentials that may at least send requests to the admin runtime (rpc.v1.Jobs.Health): "
    "`trellis-jobs permissions --operator NAME=read` prints their permissions"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The installation; `declared` is the contract of `--app`."""

    access: ConnectOptions
    connection: Connection
    features: Features
    declared: ServiceContract | None
    system_account: str | None


async def diagnose(
    access: ConnectOptions, declared: ServiceContract | None, system_account: str | None
) -> Diagnosis:
    try:
        connection = await Connection.open(
            access,
            name="trellis-jobs doctor",
            timeout=DEFAULT_TIMEOUT,
            retry_connect=False,
            max_wait=DEFAULT_TIMEOUT,
        )
    except InfrastructureError as error:
        remedy = "check --nats, --context and the credentials, and that the server runs"
        lost = Section("connection", (broken(str(error), remedy),))
        return Diagnosis((_command(), lost), exit_code_for(error))
    try:
        return await _check(access, connection, declared, system_account)
    finally:
        await connection.close()


async def _check(
    access: ConnectOptions,
    connection: Connection,
    declared: ServiceContract | None,
    system_account: str | None,
) -> Diagnosis:
    features = await _features(connection)
    subject = Subject(access, connection, features, declared, system_account)
    sections = (_section(name, step, subject) for name, step in _STEPS.items())
    return Diagnosis((_command(), *await asyncio.gather(*sections)))


def _command() -> Section:
    version = fine(f"trellis-jobs {own_version()}, Python {platform.python_version()}")
    return Section("command", (version,))


async def _features(connection: Connection) -> Features:
    try:
        async with asyncio.timeout(DEFAULT_TIMEOUT):
            return await detect_features(connection)
    except TimeoutError:
        return Features(connection.server_version, level_of(connection.server_version))


async def _section(
    name: str, step: Callable[[Subject], Awaitable[list[Finding]]], subject: Subject
) -> Section:
    try:
        async with asyncio.timeout(DEFAULT_TIMEOUT):
            return Section(name, tuple(await step(subject)))
    except InboxNotPermitted as denied:
        remedy = f"permit these credentials to subscribe to {denied.subject}, to receive replies"
        return Section(name, (broken(str(denied), remedy),), is_checked=False)
    except NotPermitted as denied:
        return Section(name, (note(f"not checked: {denied}"),), is_checked=False)
    except InfrastructureMissing as missing:
        remedy = missing.remedy or rules.CREATE_MISSING
        return Section(name, (broken(f"not checked: {missing.what} does not exist", remedy),))
    except (JobsError, ConnectionLost) as error:
        return Section(name, (broken(str(error), f"fix this first: {error}"),))
    except TimeoutError:
        inbox = subject.access.inbox_prefix or "_INBOX"
        waited = format_duration(timedelta(seconds=DEFAULT_TIMEOUT))
        timed_out = f"the server did not answer within {waited}"
        remedy = (
            f"check that these credentials may subscribe to {inbox}.>, and the load of the server"
        )
        return Section(name, (broken(timed_out, remedy),))


async def _connection(subject: Subject) -> list[Finding]:
    connection = subject.connection
    account = await server_info.account_of(connection)
    of_account = f", account {account}" if account else ""
    encrypted = "encrypted" if connection.is_encrypted else "not encrypted"
    return [
        fine(f"{connection.address}, {encrypted}"),
        fine(f"{subject.access.identity()}{of_account}"),
        rules.check_round_trip(await connection.round_trip()),
    ]


async def _server(subject: Subject) -> list[Finding]:
    greeting, features = subject.connection.server_info, subject.features
    cluster = f", cluster {greeting['cluster']}" if greeting.get("cluster") else ""
    report = None
    if subject.system_account is not None:
        report = await jetstream_report(subject.access, subject.system_account)
    return [
        fine(f"nats-server {features.version}{cluster}"),
        *rules.check_features(features),
        rules.check_sync(syncs_every_write(report)),
        *rules.check_usages(storage_info.of_server(report or {})),
    ]


async def _streams(subject: Subject) -> list[Finding]:
    changes = await plan_streams(subject.connection, Topology(subject.features))
    names = [change.name for change in changes if "/" not in change.name]
    requests = (server_info.replication_of(subject.connection, name) for name in names)
    streams = [each for each in await asyncio.gather(*requests) if each is not None]
    cluster = subject.connection.server_info.get("cluster")
    return [
        *rules.check_streams(changes),
        *rules.check_replication(streams, cluster),
        *rules.check_usages(await storage_info.usages(subject.connection)),
    ]


async def _queues(subject: Subject) -> list[Finding]:
    snapshot = await take_queue_snapshot(subject.connection, subject.declared)
    return rules.check_queues(snapshot.rows)


async def _readers(subject: Subject) -> list[Finding]:
    return rules.check_readers(await list_readers(subject.connection))


async def _permissions(subject: Subject) -> list[Finding]:
    found = await probe_permissions(subject.connection, subject.features, await _services(subject))
    return rules.check_abilities(found)


async def _services(subject: Subject) -> list[str]:
    """The services of all visible queues and of `--app`."""
    declared = {subject.declared.service} if subject.declared else set()
    try:
        snapshot = await take_queue_snapshot(subject.connection)
    except JobsError:
        return sorted(declared)
    return sorted(declared | {row.service for row in snapshot.rows})[:_MAX_SERVICES]


async def _admin(subject: Subject) -> list[Finding]:
    admin = AdminClient(subject.connection, timeout=_ADMIN_TIMEOUT)
    try:
        health = await admin.health()
    except ServiceMissing:
        return [warning("no admin runtime answers", _NO_DAEMON)]
    except InboxNotPermitted:
        raise
    except NotPermitted as denied:
        return [warning(f"not checked: {denied}", _NO_PERMISSION)]
    version = rules.check_version(own_version(), health.version)
    return [*rules.check_health(health), version, *await _workers(admin)]


async def _workers(admin: AdminClient) -> list[Finding]:
    """Empty if these credentials may read the health but not the workers."""
    try:
        services = [service async for service in admin.services()]
    except NotPermitted:
        return []
    except NoAnswer as error:
        return [note(f"workers not checked: {error}")]
    workers = [worker for each in services for worker in each.workers]
    return rules.check_workers(workers) + rules.check_worker_clocks(workers)


async def _clock(subject: Subject) -> list[Finding]:
    ahead = await server_info.clock_difference(subject.connection, utc_now)
    return [rules.check_clock(ahead)]


_STEPS: Final[dict[str, Callable[[Subject], Awaitable[list[Finding]]]]] = {
    "connection": _connection,
    "server": _server,
    "streams": _streams,
    "queues": _queues,
    "readers": _readers,
    "permissions": _permissions,
    "admin": _admin,
    "clock": _clock,
}
