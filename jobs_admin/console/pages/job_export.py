"""The list of jobs as a file: CSV, or one JSON object per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from jobs_admin.api.errors import Invalid
from jobs_admin.api.inputs import MAX_PAGE_SIZE
from jobs_admin.console.job_export import csv_lines, json_lines
from jobs_admin.console.job_query import read_filter_text

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest

_FORMATS: Final = {
    "csv": (csv_lines, "text/csv; charset=utf-8"),
    "jsonl": (json_lines, "application/jsonl"),
}


async def show(request: ConsoleRequest) -> Response:
    """Raises Invalid for a filter or a format that does not exist."""
    written = read_filter_text(request.query.get("q", ""), request.console.now())
    if written.filter is None:
        raise Invalid(f"this is not a filter: {written.error}")
    name = request.path["format"]
    if name not in _FORMATS:
        raise Invalid(f"there is no format {name}: use {' or '.join(_FORMATS)}")
    write, media_type = _FORMATS[name]
    lines = write(request.reads.jobs(written.filter, page=MAX_PAGE_SIZE))
    headers = {"content-disposition": f'attachment; filename="jobs.{name}"'}
    return StreamingResponse(lines, media_type=media_type, headers=headers)
