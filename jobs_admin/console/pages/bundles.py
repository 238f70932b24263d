"""The jobs of the bundles that a console without a server shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.bundle_reads import BundleReads
    from jobs_admin.console.console_request import ConsoleRequest


async def show(request: ConsoleRequest) -> Response:
    """The only job, or a list of the jobs."""
    bundles = _reads(request).bundles
    if len(bundles) == 1:
        job = bundles[0].address
        return request.redirect(f"/jobs/{job.service}/{job.job_type}/{job.job_id}")
    rows = [(each, each.view()) for each in bundles]
    return request.render("bundles.html", topics="", rows=rows)


def _reads(request: ConsoleRequest) -> BundleReads:
    if request.console.bundles is None:
        raise AssertionError("only a console of bundles has this page")
    return request.console.bundles
