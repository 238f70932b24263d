"""What jobs need on the server, compared with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.contract.migrations import ContractUpdate, contract_update
from jobs_admin.cli.options import SystemAccount
from jobs_admin.cli.queue_contract import App
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import JsonOutput, console, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.service_loader import load_service
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.topology import (
    ADVISORIES,
    CONTROL,
    KEYS,
    LOG,
    TO_WORK,
    WORK,
    Config,
    Topology,
    foreign_buckets,
    is_alarms_stream,
    queue_consumer,
)
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.setup.alarms_streams import services_with_alarms
from trellis_jobs.jetstream.setup.features import detect_features, detect_replicas
from trellis_jobs.jetstream.setup.plan import Act, Change, plan_queue, plan_streams

PURPOSES: Final[Mapping[str, str]] = {
    LOG: "every event of every job",
    f"{LOG}/{TO_WORK}": "the position up to which the work queue has copied the log",
    WORK: "jobs that wait for a worker",
    ADVISORIES: "server advisories about jobs that used up their deliveries",
    KEYS: "which job holds which key",
    CONTROL: "workers, schedules, and operations on many jobs that are in progress",
}
_ALARMS: Final = "alarms of delayed jobs and schedules of the service"
_FOREIGN_BUCKET: Final = "holders of keys in queues that are shared with other runtimes"
_CONSUMER: Final = "delivers jobs to the workers of the queue"
_STYLES: Final = {"create": "green", "update": "yellow", "refuse": "red", "keep": "dim"}
_PLANNED: Final = {
    Act.CREATED: "create",
    Act.UPDATED: "update",
    Act.KEPT: "keep",
    Act.REFUSED: "refuse",
}

CHANGE_BY_HAND: Final = "the refused changes would endanger jobs: make them by hand"
UNCHANGED: Final = "nothing was changed"
_COLUMNS: Final = Columns(names=("action", "object", "reason"), flexible="reason")


class NotAsNeeded(JobsError):
    """The server is not set up as jobs need it; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InfraOptions:
    service: Annotated[
        str | None,
        typer.Argument(
            help="A service that can be imported here, as in app:service: include the consumers of "
            "its queues, and the stream for its delayed jobs. Like --app. Without it, such streams "
            "of all services are updated if they exist.",
            metavar="MODULE:SERVICE",
            show_default=False,
        ),
    ] = None
    app: App = None
    replicas: Annotated[
        int | None,
        typer.Option(
            help="Number of replicas of each stream; existing streams are resized to it. Without "
            "it, existing streams keep theirs, and new streams get three if --system-account "
            "shows a cluster of at least three servers, otherwise one.",
            min=1,
            max=5,
        ),
    ] = None
    system_account: SystemAccount = None

    def contract(self) -> ServiceContract | None:
        if self.service is not None and self.app is not None:
            raise typer.BadParameter("name the service once: as an argument or with --app")
        named = self.service or self.app
        return None if named is None else load_service(named).contract


@dataclass(frozen=True, slots=True)
class Comparison:
    """`update` is None when the command was not given the code of a service."""

    topology: Topology
    consumers: Sequence[Config]
    changes: list[Change]
    update: ContractUpdate | None

    @property
    def acts(self) -> set[Act]:
        return {change.act for change in self.changes}

    @property
    def is_migration(self) -> bool:
        return self.update is not None and self.update.is_migration

    def show(self, output: JsonOutput, *, done: bool = False) -> None:
        if output.json:
            body: dict[str, Any] = {"unchanged": self.acts == {Act.KEPT}}
            body["changes"] = [_to_json(change, done) for change in self.changes]
            print_json(body | ({"contract": self.update.to_json()} if self.update else {}))
            return
        console().print(change_table(self.changes, done=done))
        if self.update is not None:
            self.update.show()


async def compare(
    options: ConnectionOptions,
    connection: Connection,
    infra: InfraOptions,
    *,
    by_operator: bool = True,
) -> Comparison:
    topology = await _topology(options, connection, infra, by_operator)
    contract, consumers, update = infra.contract(), list[Config](), None
    changes = await plan_streams(connection, topology)
    if contract is not None:
        consumers = [queue_consumer(contract.service, each) for each in contract.queues.values()]
        changes += [await plan_queue(connection, each) for each in consumers]
        update = await contract_update(connection, contract)
    return Comparison(topology, consumers, changes, update)


async def _topology(
    options: ConnectionOptions, connection: Connection, infra: InfraOptions, by_operator: bool
) -> Topology:
    detected = 1
    if infra.replicas is None and infra.system_account is not None:
        detected = await detect_replicas(options.connect_options(), infra.system_account)
    features = await detect_features(connection)
    contract = infra.contract()
    topology = Topology(features, infra.replicas, detected, by_operator)
    if contract is None:
        return replace(topology, alarms_of=await services_with_alarms(connection))
    buckets = foreign_buckets(contract.queues.values())
    return replace(topology, buckets=buckets, alarms_of=(contract.service,))


def change_table(changes: Iterable[Change], *, done: bool) -> Table:
    rows: list[Row] = [
        {
            "action": Text(_act(change, done), _STYLES[_PLANNED[change.act]]),
            "object": change.name,
            "reason": _reason(change),
        }
        for change in changes
    ]
    return fit_table(_COLUMNS, rows, console().width)


def _act(change: Change, done: bool) -> str:
    return change.act.value if done else _PLANNED[change.act]


def _reason(change: Change) -> str:
    if change.details:
        return "; ".join(change.details)
    purpose = PURPOSES.get(change.name) or _purpose_by_kind(change.name)
    return f"missing: {purpose}" if change.act is Act.CREATED else purpose


def _purpose_by_kind(name: str) -> str:
    if "/" in name:
        return _CONSUMER
    return _ALARMS if is_alarms_stream(name) else _FOREIGN_BUCKET


def _to_json(change: Change, done: bool) -> dict[str, Any]:
    return {"act": _act(change, done), "name": change.name, "details": list(change.details)}
