"""The newest events of all jobs, as they are stored.

The page begins with the newest events. Then it gets the later ones as server-sent events, each with
the position up to which the log was read. A browser that reconnects sends that position, so no
event is left out or shown twice. The streams have the limits of all event streams of the console.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from jobs_admin.api.errors import Invalid
from jobs_admin.console.event_states import state_after
from jobs_admin.console.event_stream import KEEP_ALIVE, next_hint, streams_of
from jobs_admin.console.live import EVERYTHING
from trellis_jobs.errors import JobsError
from trellis_jobs.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.responses import Response

    from jobs_admin.api.views.tail import TailView
    from jobs_admin.console.console_request import ConsoleRequest

log = logging.getLogger(__name__)

PATH: Final = "/live"
_SHOWN_AT_FIRST: Final = 100
# More events at a time are counted, not shown: no one could read them.
_SHOWN_AT_ONCE: Final = 50
_RETRY_DELAY: Final = 2.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events a page shows; None means any."""

    service: str | None = None
    type: str | None = None
    kind: EventKind | None = None

    @property
    def topics(self) -> frozenset[str]:
        is_queue = self.service is not None and self.type is not None
        return frozenset({f"queue:{self.service}/{self.type}" if is_queue else EVERYTHING})


async def show(request: ConsoleRequest) -> Response:
    wanted = read_wanted(request)
    tail = await _read(request, wanted, None, _SHOWN_AT_FIRST)
    fields = {name: value for name, value in asdict(wanted).items() if value is not None}
    return request.render(
        "live.html",
        topics="",
        tail=tail,
        wanted=wanted,
        fields=fields,
        source=f"{PATH}/events?{urlencode(fields)}",
        kinds=[kind.value for kind in EventKind],
        state_after=state_after,
    )


async def events(request: ConsoleRequest) -> Response:
    """`after` is the position of the page; a browser that reconnects sends a newer one."""
    text = request.request.headers.get("last-event-id") or request.query.get("after", "")
    if not (text.isascii() and text.isdigit() and len(text) < len(str(2**63))):
        raise Invalid("after must be a position of the log")
    rows = _rows(request, read_wanted(request), int(text))
    return streams_of(request.request).open(request.user.name, rows)


def read_wanted(request: ConsoleRequest) -> Wanted:
    """Raises Invalid."""
    kind = request.query.get("kind", "")
    if kind and kind not in set(EventKind):
        raise Invalid(f"there is no event {kind!r}; the events are {', '.join(EventKind)}")
    return Wanted(
        request.query.get("service", "").strip() or None,
        request.query.get("type", "").strip() or None,
        EventKind(kind) if kind else None,
    )


async def _read(request: ConsoleRequest, wanted: Wanted, after: int | None, limit: int) -> TailView:
    return await request.reads.tail(
        after, service=wanted.service, type=wanted.type, kind=wanted.kind, limit=limit
    )


async def _rows(
    request: ConsoleRequest, wanted: Wanted, position: int
) -> AsyncGenerator[str, None]:
    """Read the log whenever it has changed, and send the rows of the new events."""
    searched = position
    with request.console.live.subscribed(wanted.topics, position) as subscriber:
        while True:
            known = subscriber.sequence
            try:
                tail = await _read(request, wanted, position, _SHOWN_AT_ONCE)
            except JobsError as error:
                log.info("the newest events cannot be read: %s; trying again", error)
                await asyncio.sleep(_RETRY_DELAY)
                yield KEEP_ALIVE
                continue
            if tail.entries:
                position = tail.seq
                yield _message(position, _html(request, tail))
                continue
            # Not to `known`: a replica that answers may be a moment behind the log. What was known
            # to the read before this one has been there for longer.
            position, searched = max(position, searched), known
            if await next_hint(subscriber) is None:
                yield KEEP_ALIVE


def _html(request: ConsoleRequest, tail: TailView) -> str:
    values = {"tail": tail, "state_after": state_after}
    return request.console.renderer.render("live_rows.html", values)


def _message(position: int, html: str) -> str:
    lines = "".join(f"data: {line}\n" for line in html.splitlines() if line)
    return f"id: {position}\n{lines}\n"
