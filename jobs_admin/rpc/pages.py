"""Pages as JSON: `{entries, count, offset, limit, nextOffset?}`, for jobs also `nextBefore?`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_admin.api.views.jobs import JobPlace
    from jobs_admin.reads.jobs import FoundJobs

# Room for the other fields of a page, in bytes.
_ENVELOPE_BYTES: Final = 1024
# The fields of a job or an event that may be large.
_LARGE: Final = ("payload", "result", "earlierRuns", "errors", "logs", "event")


def page_json(
    entries: Sequence[bytes], *, count: int, offset: int, limit: int, room: int, **more: Any
) -> bytes:
    """Build a page of at least one entry and as many as fit; the entries are already JSON.

    The page may be shorter than `limit`; then the caller continues at `nextOffset`. `more` are
    additional small fields.
    """
    fitting = _fitting(entries, room)
    body = {**_body(fitting, count, offset, limit), **more}
    if fitting and offset + len(fitting) < count:
        body["nextOffset"] = offset + len(fitting)
    return dumps(body)


def job_page_json(page: FoundJobs, *, before: JobPlace | None, room: int) -> bytes:
    """Build a page of jobs. `nextBefore` is the place of the last job, if there are more.

    A page that began at a place has no offset in the whole list, so it gets no `nextOffset`.
    """
    fitting = _fitting(page.documents, room)
    body = _body(fitting, page.count, page.offset, page.limit)
    shown = len(fitting)
    if fitting and before is None and page.offset + shown < page.count:
        body["nextOffset"] = page.offset + shown
    if fitting and not (page.is_last and shown == len(page.documents)):
        last = page.places[shown - 1]
        body["nextBefore"] = {"createdAt": last.created_at, "firstSeq": last.first_seq}
    return dumps(body)


def _body(fitting: list[bytes], count: int, offset: int, limit: int) -> dict[str, Any]:
    entries = [orjson.Fragment(entry) for entry in fitting]
    return {"entries": entries, "count": count, "offset": offset, "limit": limit}


def _fitting(entries: Sequence[bytes], room: int) -> list[bytes]:
    fitting: list[bytes] = []
    size = _ENVELOPE_BYTES
    for entry in entries:
        size += len(entry) + 1
        if fitting and size > room:
            break
        fitting.append(entry if size <= room else without_large_fields(entry))
    return fitting


def services_json(entries: Sequence[dict[str, Any]], *, room: int) -> list[bytes]:
    """Build each service with as many of its workers as fit, and the number of the others."""
    return [_service_json(entry, room - _ENVELOPE_BYTES) for entry in entries]


def _service_json(entry: dict[str, Any], room: int) -> bytes:
    whole = _dumps(entry)
    if len(whole) <= room:
        return whole
    workers = [_dumps(worker) for worker in entry["workers"]]
    cut = {**entry, "workers": [], "omittedWorkers": len(workers)}
    left = room - len(_dumps(cut))
    fitting = []
    for worker in workers:
        left -= len(worker) + 1
        if left < 0:
            break
        fitting.append(orjson.Fragment(worker))
    return _dumps({**cut, "workers": fitting, "omittedWorkers": len(workers) - len(fitting)})


def _dumps(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)


def without_large_fields(entry: bytes) -> bytes:
    """Remove the large fields and name them in `omitted`; they are in the log."""
    body = orjson.loads(entry)
    omitted = [name for name in _LARGE if body.pop(name, None) is not None]
    return orjson.dumps({**body, "omitted": omitted})
