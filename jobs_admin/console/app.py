"""The web application: routes, the checks before them, and what they answer after an error."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from jobs_admin.console.console_request import ConsoleContext, ConsoleRequest
from jobs_admin.console.failures import Failure, failure_of
from jobs_admin.console.rendering import FOLDER
from jobs_admin.console.screens import SCREENS
from jobs_admin.console.security import LOOPBACK_NAMES, RequestChecks
from jobs_admin.console.users import ALL_ROLES, User

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from jobs_admin.console.screen import Answer

log = logging.getLogger(__name__)

_KEEP_ALIVE: Final = 15.0
_UNEXPECTED: Final = Failure(
    500, "An error of the console", "This page could not be made.", "The console's log has details."
)


def console_app(console: ConsoleContext) -> Starlette:
    reads = [
        Route(path, _endpoint(console, answer), methods=["GET"])
        for screen in SCREENS
        for path, answer in screen.reads.items()
    ]
    changes = [
        Route(path, _endpoint(console, answer), methods=["POST"])
        for screen in SCREENS
        for path, answer in screen.changes.items()
    ]
    return Starlette(
        routes=[
            *reads,
            *changes,
            Route("/hints", _hints(console), methods=["GET"]),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
            Route("/{rest:path}", _endpoint(console, _no_such_page)),
        ],
        middleware=[
            Middleware(RequestChecks, LOOPBACK_NAMES | frozenset(console.config.allowed_hosts))
        ],
    )


def _endpoint(console: ConsoleContext, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        made = ConsoleRequest(request, console, _user(request))
        try:
            return await answer(made)
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                log.exception("the page %s could not be made", request.url.path)
            return _show_failure(made, failure or _UNEXPECTED)

    return respond


def _show_failure(request: ConsoleRequest, failure: Failure) -> Response:
    return request.render("failure.html", status=failure.status, topics="", failure=failure)


async def _no_such_page(request: ConsoleRequest) -> Response:
    path = request.request.url.path
    remedy = "The navigation at the top has all screens."
    return _show_failure(request, Failure(404, "Not found", f"There is no page {path}.", remedy))


def _user(_: Request) -> User:
    return User("console", ALL_ROLES)


def _hints(console: ConsoleContext) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        topics = frozenset(request.query_params.get("topics", "").split())
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        position = int(after) if after.isascii() and after.isdigit() else None
        events = _hint_events(console, topics, position)
        return StreamingResponse(events, media_type="text/event-stream")

    return respond


async def _hint_events(
    console: ConsoleContext, topics: frozenset[str], after: int | None
) -> AsyncIterator[str]:
    """Server-sent events; each has a position of the log as its id, and nothing else."""
    with console.live.subscribed(topics, after) as subscriber:
        yield "retry: 1000\n\n"
        while True:
            try:
                async with asyncio.timeout(_KEEP_ALIVE):
                    sequence = await subscriber.next()
            except TimeoutError:
                yield ": still here\n\n"
                continue
            yield f"id: {sequence}\ndata: {sequence}\n\n"
