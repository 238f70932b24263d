"""What operators did, to what, when and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from jobs_admin.api.errors import Invalid
from jobs_admin.api.time_text import moment_before
from jobs_admin.api.views.audit import AuditTarget, AuditVerb
from jobs_admin.console.live import EVERYTHING

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.api.views.audit import AuditEntry
    from jobs_admin.console.console_request import ConsoleRequest

PATH: Final = "/audit"
PAGE_SIZE: Final = 50
_FIELDS: Final = ("by", "verb", "target", "service", "type", "since", "until")


async def show(request: ConsoleRequest) -> Response:
    given = {name: request.query.get(name, "").strip() for name in _FIELDS}
    now, offset = request.console.now(), request.offset
    page = await request.reads.audit.list(
        by=given["by"] or None,
        verb=given["verb"] or None,
        target=given["target"] or None,
        service=given["service"] or None,
        type=given["type"] or None,
        since=_moment(given, "since", now),
        until=_moment(given, "until", now),
        offset=offset,
        limit=PAGE_SIZE,
        min_seq=request.min_seq,
    )
    return request.render(
        "audit.html",
        topics="" if offset else EVERYTHING,
        page=page,
        given=given,
        is_filtered=any(given.values()),
        links=[target_href(entry) for entry in page.entries],
        verbs=[verb.value for verb in AuditVerb],
        targets=[target.value for target in AuditTarget],
        newer=_href(given, max(0, offset - PAGE_SIZE)) if offset else None,
        older=None if page.next_offset is None else _href(given, page.next_offset),
    )


def target_href(entry: AuditEntry) -> str | None:
    """The page about what was changed; None if there is none, or its name is incomplete."""
    queue = "/".join(quote(part, safe="") for part in (entry.service, entry.type) if part)
    has_queue = entry.service is not None and entry.type is not None
    name = quote(entry.id or "", safe="")
    if entry.target == AuditTarget.OPERATION and name:
        return f"/operations/{name}"
    if entry.target == AuditTarget.WORKER:
        return "/workers"
    if not has_queue:
        return None
    if entry.target == AuditTarget.QUEUE:
        return f"/queues/{queue}"
    folders = {AuditTarget.JOB: "jobs", AuditTarget.KEY: "keys", AuditTarget.SCHEDULE: "schedules"}
    folder = next((word for target, word in folders.items() if target == entry.target), None)
    return f"/{folder}/{queue}/{name}" if folder and name else None


def _moment(given: dict[str, str], field: str, now: datetime) -> datetime | None:
    """A time without a zone is in UTC, as the form says."""
    if not given[field]:
        return None
    try:
        return moment_before(given[field], now, UTC)
    except ValueError as error:
        raise Invalid(f"{field}: {error}") from None


def _href(given: dict[str, str], offset: int) -> str:
    fields = {name: value for name, value in given.items() if value}
    fields |= {"offset": str(offset)} if offset else {}
    return f"{PATH}?{urlencode(fields)}" if fields else PATH
