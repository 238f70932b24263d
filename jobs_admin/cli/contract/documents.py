"""Load manifests from a file, from a service's code, or from the server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import Missing, UsageError
from jobs_admin.cli.queue_contract import read_manifest
from jobs_admin.cli.render.output import json_document, print_text
from jobs_admin.cli.service_loader import load_contract
from trellis_jobs.contract.changes import UNKNOWN_BECAUSE
from trellis_jobs.contract.consumer_metadata import with_declared_schemas
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.work.queues import ServerQueue, list_queues

SERVER: Final = "server"
Manifest = Mapping[str, Any]

OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="Write to this file instead of stdout.", metavar="FILE", dir_okay=False
    ),
]


def declared(named: str) -> Manifest:
    """Load the manifest of a file or of MODULE:SERVICE."""
    if Path(named).is_file():
        return read_manifest(Path(named))
    if ":" not in named or named.endswith(".json"):
        raise UsageError(f"{named!r} is neither an existing file nor MODULE:SERVICE")
    return to_manifest(load_contract(named))


async def load_both(options: ConnectionOptions, old: str, new: str) -> tuple[Manifest, Manifest]:
    """Load both; `server` stands for the service that the other document names."""
    if SERVER not in (old, new):
        return declared(old), declared(new)
    if old == new:
        raise UsageError(
            "OLD and NEW are both `server`: one must be a file or MODULE:SERVICE, to name the "
            "service"
        )
    other = declared(new if old == SERVER else old)
    async with options.connection() as connection:
        published = await server_manifest(connection, other)
    return (published, other) if old == SERVER else (other, published)


async def server_manifest(connection: Connection, other: Manifest) -> Manifest:
    """The contract in the metadata of the service's consumers. Raises Missing without consumers."""
    service, declared = str(other["service"]), other["jobs"]
    queues = [queue for queue in await list_queues(connection) if queue.service == service]
    if not queues:
        raise Missing(
            f"the server has no contract of {service}, because no worker of it was ever started"
        )
    jobs = {each.job_type: _published(each, declared.get(each.job_type)) for each in queues}
    return {"service": service, "jobs": jobs}


def _published(queue: ServerQueue, declared: Manifest | None) -> Manifest:
    try:
        published = queue.manifest_entry()
    except DeclarationError as error:
        return {UNKNOWN_BECAUSE: f"its contract on the server cannot be read: {error}"}
    if published is None:
        return {UNKNOWN_BECAUSE: "its workers have not published a contract"}
    return published if declared is None else with_declared_schemas(published, declared)


def write(text: str, out: Path | None) -> None:
    if out is None:
        print_text(text.removesuffix("\n"))
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error


def as_text(manifest: Manifest) -> str:
    return f"{json_document(manifest)}\n"
