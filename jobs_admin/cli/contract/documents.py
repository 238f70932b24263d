"""Manifests as commands name them: a file, a service's code, or what the server was told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import Missing, Misused
from jobs_admin.cli.queue_contract import read_manifest
from jobs_admin.cli.render.output import json_document, print_text
from jobs_admin.cli.service_loader import load_contract
from trellis_jobs.contract.changes import UNTOLD
from trellis_jobs.contract.consumer_metadata import with_known_types
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.work.queues import ServerQueue, list_queues

SERVER: Final = "server"
Manifest = Mapping[str, Any]

OutFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Write it to this file.", metavar="FILE", dir_okay=False),
]


def declared(named: str) -> Manifest:
    """Of a file, or of MODULE:SERVICE."""
    if Path(named).is_file():
        return read_manifest(Path(named))
    if ":" not in named or named.endswith(".json"):
        raise Misused(f"{named!r} is neither a file that is there nor MODULE:SERVICE")
    return to_manifest(load_contract(named))


async def both(reach: ConnectionOptions, old: str, new: str) -> tuple[Manifest, Manifest]:
    """What the server knows is about the service that the other one is about."""
    if SERVER not in (old, new):
        return declared(old), declared(new)
    if old == new:
        raise Misused("one of the two must be a file or MODULE:SERVICE, which names the service")
    other = declared(new if old == SERVER else old)
    async with reach.connection() as connection:
        told = await told_by_server(connection, other)
    return (told, other) if old == SERVER else (other, told)


async def told_by_server(connection: Connection, other: Manifest) -> Manifest:
    """What the consumers of the service's queues carry; raises Missing where there are none."""
    service, declared = str(other["service"]), other["jobs"]
    queues = [queue for queue in await list_queues(connection) if queue.service == service]
    if not queues:
        raise Missing(f"the server knows no contract of {service}: no worker of it ever started")
    jobs = {each.job_type: _told(each, declared.get(each.job_type)) for each in queues}
    return {"service": service, "jobs": jobs}


def _told(queue: ServerQueue, declared: Manifest | None) -> Manifest:
    try:
        told = queue.manifest_entry()
    except DeclarationError as error:
        return {UNTOLD: f"what the server was told of it cannot be read: {error}"}
    if told is None:
        return {UNTOLD: "its workers have not told the server what it was"}
    return told if declared is None else with_known_types(told, declared)


def write(text: str, out: Path | None) -> None:
    if out is None:
        print_text(text.removesuffix("\n"))
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Misused(f"{out} cannot be written: {error.strerror}") from error


def as_text(manifest: Manifest) -> str:
    return f"{json_document(manifest)}\n"
