"""`trellis-jobs infra`: what jobs need on the server, against what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from jobs_admin.cli.confirm import PANEL, Yes, ask, check_askable
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.contract.migrations import Step, step_to
from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.options import SystemAccount
from jobs_admin.cli.queue_contract import App
from jobs_admin.cli.render.columns import Columns, Row, fitting
from jobs_admin.cli.render.output import JsonOutput, console, print_json, say
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
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
    queue_consumer,
)
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.setup.features import detect_features, detect_replicas
from trellis_jobs.jetstream.setup.plan import Act, Change, plan_queue, plan_streams
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer

PURPOSES: Final[Mapping[str, str]] = {
    LOG: "every event of every job",
    f"{LOG}/{TO_WORK}": "remembers what the work queue has taken over",
    WORK: "jobs that wait for a worker",
    ADVISORIES: "the server's notices of exhausted deliveries",
    KEYS: "who holds which key",
    CONTROL: "changes of many jobs that are under way",
}
_OF_OTHERS: Final = "who holds which key of queues that are shared with other runtimes"
_OF_A_QUEUE: Final = "hands work to the queue's workers"
_STYLES: Final = {"create": "green", "update": "yellow", "refuse": "red", "keep": "dim"}
_PLANNED: Final = {
    Act.CREATED: "create",
    Act.UPDATED: "update",
    Act.KEPT: "keep",
    Act.REFUSED: "refuse",
}

_BY_HAND: Final = "what is refused would endanger jobs, so it has to be changed by hand"
_COLUMNS: Final = Columns(names=("", "what", "why"), elastic="why")
_UNCHANGED: Final = "nothing was changed"


class NotAsNeeded(JobsError):
    """What the server has is not what jobs need; the message says what to do."""


infra = typer.Typer(
    help="What jobs need on the server: streams, the bucket of keys, consumers of queues.",
    no_args_is_help=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    app: App = None
    replicas: Annotated[
        int | None,
        typer.Option(
            help="So many of each stream, up or down. Without it what is there keeps its own, and "
            "what is new gets three in a cluster of which --system-account tells, else one.",
            min=1,
            max=5,
        ),
    ] = None
    system_account: SystemAccount = None

    def contract(self) -> ServiceContract | None:
        return None if self.app is None else load_service(self.app).contract


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found; `step` where a service's code is at hand."""

    topology: Topology
    consumers: Sequence[Config]
    changes: list[Change]
    step: Step | None

    @property
    def acts(self) -> set[Act]:
        return {change.act for change in self.changes}

    @property
    def is_migration(self) -> bool:
        return self.step is not None and self.step.is_migration


@infra.command("plan")
@grouped
def plan_all(wanted: Wanted, output: JsonOutput, reach: ConnectionOptions) -> None:
    """What `apply` would do, and why; changes nothing."""
    run(_plan(reach, wanted, output))


@infra.command("check")
@grouped
def check_all(wanted: Wanted, output: JsonOutput, reach: ConnectionOptions) -> None:
    """Whether everything is there and as it should be: ends with 1 if not; changes nothing."""
    run(_check(reach, wanted, output))


@infra.command("apply")
@grouped
def apply_all(
    wanted: Wanted,
    output: JsonOutput,
    reach: ConnectionOptions,
    yes: Yes = False,
    accept_migration: Annotated[
        bool,
        typer.Option(
            "--accept-migration",
            help="Also a contract that may refuse, skip or double jobs on their way.",
            rich_help_panel=PANEL,
        ),
    ] = False,
) -> None:
    """Make what is missing, and bring up to date what is behind.

    The log gets all that the server knows, and servers that do not know it cannot hold it then:
    in a cluster, upgrade every server first. It asks only if something that is in use would change.
    What would endanger jobs is refused, and then nothing is changed at all: also a migration of the
    contract that nobody has accepted.
    """
    run(_apply(reach, wanted, output, yes=yes, accepts=accept_migration))


async def _plan(reach: ConnectionOptions, wanted: Wanted, output: JsonOutput) -> None:
    async with reach.connection() as connection:
        _show(await _look(reach, connection, wanted), output)


async def _check(reach: ConnectionOptions, wanted: Wanted, output: JsonOutput) -> None:
    async with reach.connection() as connection:
        # A deploy does not fail for what services do without until somebody applies it.
        look = await _look(reach, connection, wanted, by_operator=False)
    _show(look, output)
    if Act.REFUSED in look.acts:
        raise NotAsNeeded(f"it is not as it must be, and {_BY_HAND}; {_UNCHANGED}")
    if look.acts != {Act.KEPT}:
        raise NotAsNeeded(f"it is not as it must be: `trellis-jobs infra apply`; {_UNCHANGED}")


async def _apply(
    reach: ConnectionOptions, wanted: Wanted, output: JsonOutput, *, yes: bool, accepts: bool
) -> None:
    async with reach.connection(patient=True) as connection:
        look = await _look(reach, connection, wanted)
        refusal = _refusal(look, accepts=accepts)
        if refusal is not None or look.acts == {Act.KEPT}:
            _show(look, output)
            if refusal is not None:
                raise NotAsNeeded(f"{refusal}; {_UNCHANGED}")
            return
        if Act.UPDATED in look.acts and not yes:
            _ask(look.changes)
        await provision(connection, look.topology)
        for desired in look.consumers:
            await ensure_consumer(connection, desired)
    _show(look, output, done=True)


def _refusal(look: _Look, *, accepts: bool) -> str | None:
    if Act.REFUSED in look.acts:
        return _BY_HAND
    if look.is_migration and not accepts:
        return "this is a migration, see above: --accept-migration"
    return None


async def _look(
    reach: ConnectionOptions, connection: Connection, wanted: Wanted, *, by_operator: bool = True
) -> _Look:
    topology = await _topology(reach, connection, wanted, by_operator)
    contract, consumers, step = wanted.contract(), list[Config](), None
    changes = await plan_streams(connection, topology)
    if contract is not None:
        consumers = [queue_consumer(contract.service, each) for each in contract.queues.values()]
        changes += [await plan_queue(connection, each) for each in consumers]
        step = await step_to(connection, contract)
    return _Look(topology, consumers, changes, step)


async def _topology(
    reach: ConnectionOptions, connection: Connection, wanted: Wanted, by_operator: bool
) -> Topology:
    detected = 1
    if wanted.replicas is None and wanted.system_account is not None:
        detected = await detect_replicas(reach.access(), wanted.system_account)
    features = await detect_features(connection)
    contract = wanted.contract()
    buckets = () if contract is None else foreign_buckets(contract.queues.values())
    return Topology(features, wanted.replicas, detected, by_operator, buckets=buckets)


def _ask(changes: Iterable[Change]) -> None:
    updated = [change for change in changes if change.act is Act.UPDATED]
    for change in updated:
        say(f"{change.what}: {'; '.join(change.details)}")
    check_askable(False, "change what is in use")
    ask("change what is in use?")


def _show(look: _Look, output: JsonOutput, *, done: bool = False) -> None:
    if output.json:
        told: dict[str, Any] = {"unchanged": look.acts == {Act.KEPT}}
        told["changes"] = [_to_json(each, done) for each in look.changes]
        print_json(told | ({"contract": look.step.to_json()} if look.step else {}))
        return
    console().print(change_table(look.changes, done=done))
    if look.step is not None:
        look.step.show()


def change_table(changes: Iterable[Change], *, done: bool) -> Table:
    rows: list[Row] = [
        {
            "": Text(_act(change, done), _STYLES[_PLANNED[change.act]]),
            "what": change.name,
            "why": _why(change),
        }
        for change in changes
    ]
    return fitting(_COLUMNS, rows, console().width)


def _act(change: Change, done: bool) -> str:
    return change.act.value if done else _PLANNED[change.act]


def _why(change: Change) -> str:
    if change.details:
        return "; ".join(change.details)
    of_others = _OF_A_QUEUE if "/" in change.name else _OF_OTHERS
    purpose = PURPOSES.get(change.name, of_others)
    return f"missing: {purpose}" if change.act is Act.CREATED else purpose


def _to_json(change: Change, done: bool) -> dict[str, Any]:
    return {"act": _act(change, done), "name": change.name, "details": list(change.details)}
