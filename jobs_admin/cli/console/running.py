"""Runs a console within a command. Its packages are an extra, which may not be installed."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from jobs_admin.console.connections import open_connections
from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from jobs_admin.bundle.job_bundle import JobBundle
    from jobs_admin.console.config import ConsoleConfig
    from jobs_admin.console.users import Role
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions

INSTALL: Final = "pip install 'trellis-jobs[console]'"
_PACKAGES: Final = frozenset({"jinja2", "markupsafe", "starlette", "uvicorn"})


class ConsoleMissing(JobsError):
    def __init__(self, package: str) -> None:
        super().__init__(f"the web console needs {package}, which is not installed: {INSTALL}")


@asynccontextmanager
async def console_running(
    config: ConsoleConfig, access: Mapping[Role, ConnectOptions]
) -> AsyncIterator[str]:
    """Run a console within the block, and yield its address. Raises ConsoleMissing."""
    with _extra():
        from jobs_admin.console.serving import console_serving  # noqa: PLC0415 - an extra
    async with (
        open_connections(access) as connections,
        console_serving(config, connections) as address,
    ):
        yield address


@asynccontextmanager
async def bundles_running(
    config: ConsoleConfig, bundles: Sequence[JobBundle]
) -> AsyncIterator[str]:
    """The same for the jobs of bundles, without a server."""
    with _extra():
        from jobs_admin.console.bundle_reads import BundleReads  # noqa: PLC0415 - an extra
        from jobs_admin.console.serving import bundles_serving  # noqa: PLC0415 - an extra
    async with bundles_serving(config, BundleReads(bundles)) as address:
        yield address


@contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _PACKAGES:
            raise ConsoleMissing(package) from None
        raise
