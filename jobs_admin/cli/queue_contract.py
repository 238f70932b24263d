"""Where a command learns what a queue takes: a manifest, a service's code, or the server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from jobs_admin.cli.exit_codes import Missing, Misused
from jobs_admin.cli.queue_names import QueueName
from jobs_admin.cli.service_loader import load_service
from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.manifest import from_manifest, restated
from trellis_jobs.errors import DeclarationError, NotPermitted
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.work.queues import ServerQueue, find_queue, list_queues

_PANEL: Final = "Contract"
_DEEPEST: Final = 60
_OTHERWISE: Final = "give --app MODULE:SERVICE, or --contract FILE"

App = Annotated[
    str | None,
    typer.Option(
        "--app",
        help="A service whose code is here, as in app:service.",
        metavar="MODULE:SERVICE",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractSource:
    """Without either, what the queue's service has told the server."""

    app: App = None
    contract: Annotated[
        Path | None,
        typer.Option(
            help="A manifest file.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            rich_help_panel=_PANEL,
        ),
    ] = None

    def check(self) -> None:
        if self.app is not None and self.contract is not None:
            raise Misused("--app and --contract both say what the queue takes: choose one")

    async def queue(self, connection: Connection, name: QueueName) -> JobType[Any, Any]:
        declared = self._declared()
        if declared is None:
            return await _told(connection, name)
        queue = _of(declared, name)
        return queue if self.contract is None else await _with_bucket(connection, name, queue)

    def _declared(self) -> ServiceContract | None:
        if self.contract is not None:
            return read_contract(self.contract)
        return None if self.app is None else load_service(self.app).contract


def read_contract(file: Path) -> ServiceContract:
    return from_manifest(read_manifest(file))


def read_manifest(file: Path) -> dict[str, Any]:
    """As it would be written here, and what it says beyond that; raises DeclarationError."""
    try:
        document = orjson.loads(file.read_bytes())
        check_depth(document)
        return restated(document)
    except (OSError, orjson.JSONDecodeError, DeclarationError) as error:
        raise DeclarationError(f"{file}: {error}") from error


def check_depth(document: object) -> None:
    """What reads schemas goes down with them, and Python ends a program that goes too deep."""
    level = [document]
    for _ in range(_DEEPEST):
        if not level:
            return
        level = [inner for each in level for inner in _inside(each)]
    raise DeclarationError(f"it is nested more than {_DEEPEST} levels deep")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


async def known_queue(connection: Connection, name: QueueName) -> ServerQueue:
    """Raises Missing, which tells what there is instead."""
    found = await find_queue(connection, name.service, name.job_type)
    if found is not None:
        return found
    known = ", ".join(queue.name for queue in await list_queues(connection)) or "none"
    raise Missing(f"the server knows no queue {name}: no worker of it ever started; known: {known}")


async def _told(connection: Connection, name: QueueName) -> JobType[Any, Any]:
    try:
        contract = (await known_queue(connection, name)).contract()
    except DeclarationError as error:
        raise DeclarationError(
            f"what the server knows of {name} cannot be used: {error}; {_OTHERWISE}"
        ) from error
    except Missing as missing:
        raise Missing(f"{missing}; {_OTHERWISE}") from None
    if contract is None:
        raise Missing(
            f"the workers of {name} have not told the server its contract, because they are older "
            f"or may not: {_OTHERWISE}"
        )
    return contract


async def _with_bucket(
    connection: Connection, name: QueueName, queue: JobType[Any, Any]
) -> JobType[Any, Any]:
    """A manifest does not say in which bucket the keys are: the queue's consumer does."""
    if queue.key_policy is None:
        return queue
    try:
        found = await find_queue(connection, name.service, name.job_type)
    except NotPermitted:
        return queue
    bucket = found.keys_bucket if found is not None else None
    return (
        queue
        if bucket is None
        else replace(queue, key_policy=replace(queue.key_policy, bucket=bucket))
    )


def _of(declared: ServiceContract, name: QueueName) -> JobType[Any, Any]:
    found = declared.queues.get(name.job_type) if declared.service == name.service else None
    if found is None:
        known = ", ".join(f"{declared.service}/{queue}" for queue in sorted(declared.queues))
        raise Missing(f"this contract has no queue {name}, only {known or 'none'}")
    return found
