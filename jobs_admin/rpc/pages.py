"""Live pages: `{entries, count, offset, limit, nextOffset?}`, of jobs also `nextBefore?`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_admin.api.views.jobs import JobPlace
    from jobs_admin.reads.jobs import FoundJobs

_AROUND_THE_ENTRIES: Final = 1024
# Whatever may be large in a job or an event; the rest of it is small.
_LARGE: Final = ("payload", "result", "earlierRuns", "errors", "logs", "event")


def page_json(
    entries: Sequence[bytes], *, count: int, offset: int, limit: int, room: int, **more: Any
) -> bytes:
    """As many of the entries, which are JSON already, as one answer can take; at least one.

    A page may so be shorter than `limit`: whoever pages goes on at `nextOffset`. What is told
    besides is small.
    """
    fitting = _fitting(entries, room)
    body = {**_body(fitting, count, offset, limit), **more}
    if fitting and offset + len(fitting) < count:
        body["nextOffset"] = offset + len(fitting)
    return dumps(body)


def job_page_json(page: FoundJobs, *, before: JobPlace | None, room: int) -> bytes:
    """The same, of jobs: `nextBefore` is the place of the last one told, if others follow.

    What began before a place has no offset in the whole list, and is told none.
    """
    fitting = _fitting(page.documents, room)
    body = _body(fitting, page.count, page.offset, page.limit)
    told = len(fitting)
    if fitting and before is None and page.offset + told < page.count:
        body["nextOffset"] = page.offset + told
    if fitting and not (page.is_last and told == len(page.documents)):
        last = page.places[told - 1]
        body["nextBefore"] = {"createdAt": last.created_at, "firstSeq": last.first_seq}
    return dumps(body)


def _body(fitting: list[bytes], count: int, offset: int, limit: int) -> dict[str, Any]:
    entries = [orjson.Fragment(entry) for entry in fitting]
    return {"entries": entries, "count": count, "offset": offset, "limit": limit}


def _fitting(entries: Sequence[bytes], room: int) -> list[bytes]:
    fitting: list[bytes] = []
    size = _AROUND_THE_ENTRIES
    for entry in entries:
        size += len(entry) + 1
        if fitting and size > room:
            break
        fitting.append(entry if size <= room else without_the_large(entry))
    return fitting


def services_json(entries: Sequence[dict[str, Any]], *, room: int) -> list[bytes]:
    """Each with as many of its workers as one answer can take, and how many these leave out."""
    return [_service_json(entry, room - _AROUND_THE_ENTRIES) for entry in entries]


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


def without_the_large(entry: bytes) -> bytes:
    """What cannot be sent is named in `omitted`: the log has it."""
    body = orjson.loads(entry)
    omitted = [name for name in _LARGE if body.pop(name, None) is not None]
    return orjson.dumps({**body, "omitted": omitted})
