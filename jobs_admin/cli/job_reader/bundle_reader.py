"""Read a job from a bundle instead of a server: the option `--bundle`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from jobs_admin.api.errors import BundleInvalid
from jobs_admin.api.views.jobs import ExplanationView, JobSecrets, JobView, LogEntry
from jobs_admin.bundle.bundle_file import read_bundle
from jobs_admin.bundle.job_bundle import JobBundle
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.job_names import parse_job
from jobs_admin.cli.job_reader.reader import JobSource, open_reader
from trellis_jobs.model.identity import JobAddress

BundleOption = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        help="Show the job of this file, which `jobs export` wrote; needs no server.",
        metavar="FILE",
        exists=True,
        dir_okay=False,
    ),
]


@dataclass(frozen=True, slots=True)
class BundleReader:
    """A bundle has one job, so the job that is asked for is that one."""

    bundle: JobBundle

    async def job(self, _: str | JobAddress) -> JobView:
        return self.bundle.view()

    async def secrets(self, _: str | JobAddress) -> JobSecrets:
        return self.bundle.secrets()

    async def explanation(self, _: JobView) -> ExplanationView | None:
        return self.bundle.explanation

    async def entries(self, _: str | JobAddress) -> list[LogEntry]:
        return self.bundle.events()


def load_bundle(file: Path) -> JobBundle:
    try:
        return read_bundle(file.read_bytes())
    except OSError as error:
        raise BundleInvalid(f"{file}: {error.strerror or error}") from None
    except BundleInvalid as error:
        raise BundleInvalid(f"{file}: {error}") from None


def named_jobs(ids: list[str], bundle: JobBundle | None) -> list[str | JobAddress]:
    """The jobs that a command shows: those of its arguments, or that of a bundle."""
    if bundle is None:
        if not ids:
            raise UsageError("name a job: its ID, or a file with --bundle FILE")
        return [parse_job(each) for each in ids]
    if ids:
        raise UsageError("name either a job or --bundle FILE, not both")
    return [bundle.address]


@asynccontextmanager
async def open_source(
    options: AdminConnectionOptions, bundle: JobBundle | None
) -> AsyncIterator[JobSource]:
    if bundle is not None:
        yield BundleReader(bundle)
        return
    async with open_reader(options) as reader:
        yield reader
