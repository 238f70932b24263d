"""Look at an installation step by step: a step that fails is told, and the others go on."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.connection import PATIENCE
from jobs_admin.cli.doctor import rules
from jobs_admin.cli.doctor.findings import (
    Diagnosis,
    Finding,
    Section,
    attention,
    broken,
    fine,
    note,
)
from jobs_admin.cli.exit_codes import exit_of
from jobs_admin.cli.queues.snapshot import look_at_queues
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

_ADMIN_PATIENCE: Final = 1.0
_SERVICES_TRIED: Final = 20
_NO_DAEMON: Final = (
    "run `trellis-jobs admin serve`: without it no deadline is kept, no lost work found"
)

_NO_RIGHT: Final = (
    "look with credentials that may at least ask the admin runtime (rpc.v1.Jobs.Health): "
    "`trellis-jobs permissions --operator NAME=read` tells their rights"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at; `declared` is the code at hand, `system_account` may ask the server."""

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
            timeout=PATIENCE,
            retry_connect=False,
            max_wait=PATIENCE,
        )
    except InfrastructureError as error:
        remedy = "check --nats, --context and the credentials, and that the server runs"
        lost = Section("connection", (broken(str(error), remedy),))
        return Diagnosis((_command(), lost), exit_of(error))
    try:
        return await _look(access, connection, declared, system_account)
    finally:
        await connection.close()


async def _look(
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
    told = fine(f"trellis-jobs {own_version()}, Python {platform.python_version()}")
    return Section("command", (told,))


async def _features(connection: Connection) -> Features:
    try:
        async with asyncio.timeout(PATIENCE):
            return await detect_features(connection)
    except TimeoutError:
        return Features(connection.server_version, level_of(connection.server_version))


async def _section(
    name: str, step: Callable[[Subject], Awaitable[list[Finding]]], subject: Subject
) -> Section:
    try:
        async with asyncio.timeout(PATIENCE):
            return Section(name, tuple(await step(subject)))
    except InboxNotPermitted as denied:
        remedy = f"let these credentials subscribe to {denied.subject}: no answer can come"
        return Section(name, (broken(str(denied), remedy),), is_seen=False)
    except NotPermitted as denied:
        return Section(name, (note(f"not looked at: {denied}"),), is_seen=False)
    except InfrastructureMissing as missing:
        remedy = missing.remedy or rules.MAKE_MISSING
        return Section(name, (broken(f"not looked at: {missing.what} is not there", remedy),))
    except (JobsError, ConnectionLost) as error:
        return Section(name, (broken(str(error), f"see to this first: {error}"),))
    except TimeoutError:
        inbox = subject.access.inbox_prefix or "_INBOX"
        silent = f"no answer within {format_duration(timedelta(seconds=PATIENCE))}"
        remedy = f"see whether these credentials may subscribe to {inbox}.>, and how busy it is"
        return Section(name, (broken(silent, remedy),))


async def _connection(subject: Subject) -> list[Finding]:
    connection = subject.connection
    account = await server_info.account_of(connection)
    of_account = f", account {account}" if account else ""
    encrypted = "encrypted" if connection.is_encrypted else "not encrypted"
    return [
        fine(f"{connection.address}, {encrypted}"),
        fine(f"{subject.access.identity()}{of_account}"),
        rules.judge_round_trip(await connection.round_trip()),
    ]


async def _server(subject: Subject) -> list[Finding]:
    greeting, features = subject.connection.server_info, subject.features
    cluster = f", cluster {greeting['cluster']}" if greeting.get("cluster") else ""
    report = None
    if subject.system_account is not None:
        report = await jetstream_report(subject.access, subject.system_account)
    return [
        fine(f"nats-server {features.version}{cluster}"),
        *rules.judge_features(features),
        rules.judge_sync(syncs_every_write(report)),
        *rules.judge_usages(storage_info.of_server(report or {})),
    ]


async def _streams(subject: Subject) -> list[Finding]:
    changes = await plan_streams(subject.connection, Topology(subject.features))
    names = [change.name for change in changes if "/" not in change.name]
    asked = (server_info.replication_of(subject.connection, name) for name in names)
    there = [each for each in await asyncio.gather(*asked) if each is not None]
    cluster = subject.connection.server_info.get("cluster")
    return [
        *rules.judge_streams(changes),
        *rules.judge_replication(there, cluster),
        *rules.judge_usages(await storage_info.usages(subject.connection)),
    ]


async def _queues(subject: Subject) -> list[Finding]:
    looked = await look_at_queues(subject.connection, subject.declared)
    return rules.judge_queues(looked.rows)


async def _readers(subject: Subject) -> list[Finding]:
    return rules.judge_readers(await list_readers(subject.connection))


async def _permissions(subject: Subject) -> list[Finding]:
    found = await probe_permissions(subject.connection, subject.features, await _services(subject))
    return rules.judge_abilities(found)


async def _services(subject: Subject) -> list[str]:
    """Of queues that it may see, and of the code at hand."""
    declared = {subject.declared.service} if subject.declared else set()
    try:
        looked = await look_at_queues(subject.connection)
    except JobsError:
        return sorted(declared)
    return sorted(declared | {row.service for row in looked.rows})[:_SERVICES_TRIED]


async def _admin(subject: Subject) -> list[Finding]:
    admin = AdminClient(subject.connection, timeout=_ADMIN_PATIENCE)
    try:
        health = await admin.health()
    except ServiceMissing:
        return [attention("no admin runtime answers", _NO_DAEMON)]
    except InboxNotPermitted:
        raise
    except NotPermitted as denied:
        return [attention(f"not looked at: {denied}", _NO_RIGHT)]
    version = rules.judge_version(own_version(), health.version)
    return [*rules.judge_health(health), version, *await _workers(admin)]


async def _workers(admin: AdminClient) -> list[Finding]:
    """Nothing where these credentials may ask for the health and not for the workers."""
    try:
        services = [service async for service in admin.services()]
    except NotPermitted:
        return []
    except NoAnswer as error:
        return [note(f"workers not looked at: {error}")]
    workers = [worker for each in services for worker in each.workers]
    return rules.judge_workers(workers) + rules.judge_worker_clocks(workers)


async def _clock(subject: Subject) -> list[Finding]:
    ahead = await server_info.clock_difference(subject.connection, utc_now)
    return [rules.judge_clock(ahead)]


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
