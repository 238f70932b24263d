"""Live offset pages: `{entries, count, offset, limit, nextOffset?}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

_AROUND_THE_ENTRIES: Final = 1024
# Whatever may be large in a job or an event; the rest of it is small.
_LARGE: Final = ("payload", "result", "earlierRuns", "errors", "logs", "event")


def page_json(entries: Sequence[bytes], *, count: int, offset: int, limit: int, room: int) -> bytes:
    """As many of the entries, which are JSON already, as one answer can take; at least one.

    A page may so be shorter than `limit`: whoever pages goes on at `nextOffset`.
    """
    fitting: list[bytes] = []
    size = _AROUND_THE_ENTRIES
    for entry in entries:
        size += len(entry) + 1
        if fitting and size > room:
            break
        fitting.append(entry if size <= room else without_the_large(entry))
    body: dict[str, Any] = {
        "entries": [orjson.Fragment(entry) for entry in fitting],
        "count": count,
        "offset": offset,
        "limit": limit,
    }
    if fitting and offset + len(fitting) < count:
        body["nextOffset"] = offset + len(fitting)
    return dumps(body)


def without_the_large(entry: bytes) -> bytes:
    """What cannot be sent is named in `omitted`: the log has it."""
    body = orjson.loads(entry)
    omitted = [name for name in _LARGE if body.pop(name, None) is not None]
    return orjson.dumps({**body, "omitted": omitted})
