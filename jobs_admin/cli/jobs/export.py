"""`trellis-jobs jobs export`: write a job to a file, to be shown or run elsewhere."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from jobs_admin.api.errors import BundleInvalid, Unexpected
from jobs_admin.api.views.creation import ContractView
from jobs_admin.bundle.bundle_file import write_bundle
from jobs_admin.bundle.job_bundle import JobBundle
from jobs_admin.bundle.reveal import reveal
from jobs_admin.cli.actor import actor_name
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.job_names import JobArgument, parse_job
from jobs_admin.cli.job_reader.reader import JobReader, folded, open_reader
from jobs_admin.cli.render.output import json_document, print_stderr, print_text
from jobs_admin.cli.run import run
from jobs_admin.creation.contract_view import contract_view
from jobs_admin.explain.explain import explain
from jobs_admin.explain.explanation import Facts
from jobs_admin.explain.views import explanation_view
from jobs_admin.private_files import owner_only
from jobs_admin.queues.contract import published_contract
from jobs_admin.queues.read import known_queue
from trellis_jobs.errors import JobsError, NotConfirmed, NotPermitted, ServiceMissing
from trellis_jobs.model.identity import JobAddress


def export_job(
    job: JobArgument,
    options: AdminConnectionOptions,
    reveal: Annotated[
        bool,
        typer.Option(
            "--reveal", help="Write secret fields too; this needs the permission `secrets`."
        ),
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write, which only its owner can read. Default: stdout.",
            metavar="FILE",
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Write a job as a bundle: its whole history, its contract and its explanation.

    `jobs get`, `events` and `explain` show it with --bundle, and `jobs run-local` runs its handler
    on your machine. Secret fields are hidden unless --reveal is given.
    """
    run(_export(options, parse_job(job), file, revealed=reveal))


async def _export(
    options: AdminConnectionOptions, job: str | JobAddress, file: Path | None, *, revealed: bool
) -> None:
    async with open_reader(options) as reader:
        bundle = await _bundle(reader, job, revealed=revealed)
    if any(entry.omitted for entry in bundle.entries):
        print_stderr("Some events are too large for a reply, and are missing in the bundle.")
    text = json_document(write_bundle(bundle))
    if file is None:
        print_text(text)
    else:
        _write(file, text)


def _write(file: Path, text: str) -> None:
    try:
        with open(file, "w", encoding="utf-8", opener=owner_only) as written:
            written.write(f"{text}\n")
    except OSError as error:
        raise BundleInvalid(f"cannot write {file}: {error.strerror or error}") from None


async def _bundle(reader: JobReader, job: str | JobAddress, *, revealed: bool) -> JobBundle:
    entries = await reader.entries(job)
    view = folded(entries, job)
    address = JobAddress(view.service, view.type, view.id)
    secrets = await reader.secrets(address) if revealed else None
    bundle = JobBundle(
        address=address,
        exported_at=datetime.now(UTC),
        exported_by=actor_name(None),
        revealed=revealed,
        entries=tuple(entries) if secrets is None else reveal(entries, secrets),
        contract=await _contract(reader, address),
        explanation=await reader.explanation(view),
    )
    if bundle.explanation is None and bundle.job.is_over:
        # The end of a job needs no facts but its history.
        ended = explain(bundle.job, Facts(now=bundle.exported_at))
        return replace(bundle, explanation=explanation_view(bundle.job, ended))
    return bundle


async def _contract(reader: JobReader, job: JobAddress) -> ContractView | None:
    """Returns None, with a note, if neither the admin runtime nor the server tells it."""
    try:
        return await _published_contract(reader, job)
    except JobsError as error:
        print_stderr(f"The bundle has no contract: {error}")
        return None


async def _published_contract(reader: JobReader, job: JobAddress) -> ContractView:
    if reader.admin is not None:
        with suppress(ServiceMissing, NotConfirmed, NotPermitted, Unexpected):
            return await reader.admin.creation.contract(job.service, job.job_type)
    queue = await known_queue(reader.connection, job.service, job.job_type)
    return contract_view(job.service, published_contract(queue))
