"""Find the contract of a queue: in a manifest file, in a service's code, or on the server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from jobs_admin.api.errors import ContractMissing, QueueMissing
from jobs_admin.cli.exit_codes import Missing, UsageError
from jobs_admin.cli.queue_names import QueueName
from jobs_admin.cli.service_loader import load_service
from jobs_admin.queues.contract import published_contract
from jobs_admin.queues.read import known_queue
from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.manifest import from_manifest, normalized
from trellis_jobs.errors import DeclarationError, NotPermitted
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.work.queues import find_queue

_PANEL: Final = "Contract"
_MAX_DEPTH: Final = 60
_ALTERNATIVES: Final = "use --app MODULE:SERVICE or --contract FILE"

App = Annotated[
    str | None,
    typer.Option(
        "--app",
        help="A service that can be imported here, as in app:service.",
        metavar="MODULE:SERVICE",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractSource:
    """Without either option, the contract is read from the queue's consumer on the server."""

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

    @property
    def is_local(self) -> bool:
        return self.app is not None or self.contract is not None

    def check(self) -> None:
        if self.app is not None and self.contract is not None:
            raise UsageError("--app and --contract both name a contract: use one of them")

    async def queue(self, connection: Connection, name: QueueName) -> JobType[Any, Any]:
        declared = self._declared()
        if declared is None:
            return await _queue_on_server(connection, name)
        queue = _declared_queue(declared, name)
        return queue if self.contract is None else await _with_bucket(connection, name, queue)

    def _declared(self) -> ServiceContract | None:
        if self.contract is not None:
            return read_contract(self.contract)
        return None if self.app is None else load_service(self.app).contract


def read_contract(file: Path) -> ServiceContract:
    return from_manifest(read_manifest(file))


def read_manifest(file: Path) -> dict[str, Any]:
    """Read a manifest and normalise it, keeping unknown fields. Raises DeclarationError."""
    try:
        document = orjson.loads(file.read_bytes())
        check_depth(document)
        return normalized(document)
    except (OSError, orjson.JSONDecodeError, DeclarationError) as error:
        raise DeclarationError(f"{file}: {error}") from error


def check_depth(document: object) -> None:
    """Code that reads schemas is recursive, and Python limits the depth of recursion."""
    level = [document]
    for _ in range(_MAX_DEPTH):
        if not level:
            return
        level = [inner for each in level for inner in _inside(each)]
    raise DeclarationError(f"it is nested more than {_MAX_DEPTH} levels deep")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


async def _queue_on_server(connection: Connection, name: QueueName) -> JobType[Any, Any]:
    try:
        return published_contract(await known_queue(connection, name.service, name.job_type))
    except DeclarationError as error:
        raise DeclarationError(f"{error}; {_ALTERNATIVES}") from error
    except (QueueMissing, ContractMissing) as missing:
        raise Missing(f"{missing}; {_ALTERNATIVES}") from None


async def _with_bucket(
    connection: Connection, name: QueueName, queue: JobType[Any, Any]
) -> JobType[Any, Any]:
    """A manifest does not name the key bucket, so it is read from the queue's consumer."""
    if queue.key_policy is None:
        return queue
    try:
        found = await find_queue(connection, name.service, name.job_type)
    except NotPermitted:
        return queue
    bucket = found.keys_bucket if found is not None else None
    if bucket is None:
        return queue
    return replace(queue, key_policy=replace(queue.key_policy, bucket=bucket))


def _declared_queue(declared: ServiceContract, name: QueueName) -> JobType[Any, Any]:
    found = declared.queues.get(name.job_type) if declared.service == name.service else None
    if found is None:
        known = ", ".join(f"{declared.service}/{queue}" for queue in sorted(declared.queues))
        raise Missing(f"this contract has no queue {name}; queues: {known or 'none'}")
    return found
