"""Pages as JSON: `{entries, count, offset, limit, nextOffset?}`, for jobs also `nextBefore?`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.api.views.services import ServiceView
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from jobs_admin.api.views.base import Page, View
    from jobs_admin.api.views.jobs import JobCursor
    from jobs_admin.reads.jobs import FoundJobs
    from jobs_admin.reads.past_jobs import PastJobs

# Room for the other fields of a page, in bytes.
_ENVELOPE_BYTES: Final = 1024
_CONTENTS: Final = ("payload", "result")
# The fields of a job or a message of the log that may be large.
_LARGE: Final = (*_CONTENTS, "earlierRuns", "errors", "logs", "event")


def page_json(page: Page[Any], *, max_bytes: int) -> bytes:
    """Encode a page with at least one of its entries, and as many as fit.

    It may be shorter than `limit`; then the caller continues at `nextOffset`.
    """
    whole = _with_next_offset(page, len(page.entries)).encode()
    if len(whole) <= max_bytes:
        return whole
    fitting = _fitting((_entry_json(entry, max_bytes) for entry in page.entries), max_bytes)
    cut = _with_next_offset(page, len(fitting)).model_copy(update={"entries": ()})
    return dumps({**orjson.loads(cut.encode()), "entries": _fragments(fitting)})


def _with_next_offset(page: Page[Any], shown: int) -> Page[Any]:
    end = page.offset + shown
    return page.model_copy(update={"next_offset": end}) if shown and end < page.count else page


def job_page_json(page: FoundJobs, *, before: JobCursor | None, max_bytes: int) -> bytes:
    """Build a page of jobs. `nextBefore` is the cursor of the last job, if there are more.

    The jobs are JSON already, as the projection stores them. A page that began at a cursor has no
    offset in the whole list, so it gets no `nextOffset`.
    """
    fitting = _fitting(page.documents, max_bytes)
    body: dict[str, Any] = {
        "entries": _fragments(fitting),
        "count": page.count,
        "offset": page.offset,
        "limit": page.limit,
    }
    shown = len(fitting)
    if fitting and before is None and page.offset + shown < page.count:
        body["nextOffset"] = page.offset + shown
    if fitting and not (page.is_last and shown == len(page.documents)):
        body["nextBefore"] = orjson.Fragment(page.cursors[shown - 1].encode())
    return dumps(body)


def past_jobs_json(found: PastJobs, *, at: datetime, max_bytes: int) -> bytes:
    """Jobs as they were, as many as fit; then `nextAfter` is the cursor of the last of them."""
    fitting = _fitting([job.document for job in found.jobs], max_bytes)
    is_cut = len(fitting) < len(found.jobs)
    end = found.jobs[len(fitting) - 1].cursor if is_cut else found.end
    body: dict[str, Any] = {
        "at": at,
        "entries": _fragments(fitting),
        "examined": found.examined,
    }
    if end is not None:
        body["nextAfter"] = orjson.Fragment(end.encode())
    return dumps(body)


def _fragments(entries: Iterable[bytes]) -> list[orjson.Fragment]:
    return [orjson.Fragment(entry) for entry in entries]


def _fitting(entries: Iterable[bytes], max_bytes: int) -> list[bytes]:
    fitting: list[bytes] = []
    size = _ENVELOPE_BYTES
    for entry in entries:
        size += len(entry) + 1
        if fitting and size > max_bytes:
            break
        fitting.append(entry if size <= max_bytes else without_large_fields(entry))
    return fitting


def _entry_json(entry: View, max_bytes: int) -> bytes:
    if isinstance(entry, ServiceView):
        return service_json(entry, max_bytes=max_bytes - _ENVELOPE_BYTES)
    return entry.encode()


def service_json(service: ServiceView, *, max_bytes: int) -> bytes:
    """Encode a service with as many of its workers as fit, and the number of the others."""
    whole = service.encode()
    if len(whole) <= max_bytes:
        return whole
    workers = service.workers
    left = max_bytes - len(_with_workers(service, 0).encode())
    fitting = 0
    for worker in workers:
        left -= len(worker.encode()) + 1
        if left < 0:
            break
        fitting += 1
    return _with_workers(service, fitting).encode()


def _with_workers(service: ServiceView, number: int) -> ServiceView:
    workers = service.workers
    cut = {"workers": workers[:number], "omitted_workers": len(workers) - number}
    return service.model_copy(update=cut)


def without_large_fields(entry: bytes) -> bytes:
    """Remove the large fields and name them in `omitted`; they are in the log."""
    body = orjson.loads(entry)
    shorter = _without_contents(body) if isinstance(body.get("event"), dict) else entry
    if len(shorter) <= len(entry) // 2:
        return shorter
    omitted = [name for name in _LARGE if body.pop(name, None) is not None]
    return orjson.dumps({**body, "omitted": omitted})


def _without_contents(entry: dict[str, Any]) -> bytes:
    """A message of the log without payload and result: the rest tells what happened to the job."""
    event = entry["event"]
    omitted = [name for name in _CONTENTS if event.get(name) is not None]
    contents = dict.fromkeys(omitted)
    return orjson.dumps({**entry, "event": {**event, **contents}, "omitted": omitted})
