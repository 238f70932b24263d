"""The web application: routes, the checks before them, and what they answer after an error."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from jobs_admin.console.auth.sign_in import RequireSignIn, sign_in_with
from jobs_admin.console.console_request import ConsoleContext, ConsoleRequest
from jobs_admin.console.event_stream import MAX_STREAMS_PER_USER, EventStreams
from jobs_admin.console.failures import Failure, failure_of
from jobs_admin.console.hint_stream import HintStreams
from jobs_admin.console.rendering import FOLDER
from jobs_admin.console.security import RequestChecks
from jobs_admin.console.shared_pages import answer_shared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from jobs_admin.console.screen import Answer

log = logging.getLogger(__name__)

_UNEXPECTED: Final = Failure(
    500, "An error of the console", "This page could not be made.", "The console's log has details."
)


def console_app(console: ConsoleContext) -> Starlette:
    """Raises ConfigError if users cannot sign in."""
    reads = [
        Route(path, _endpoint(console, answer), methods=["GET"])
        for screen in console.screens
        for path, answer in screen.reads.items()
    ]
    changes = [
        Route(path, _endpoint(console, answer), methods=["POST"])
        for screen in console.screens
        for path, answer in screen.changes.items()
    ]
    signs_in = bool(console.config.sign_in.kinds)
    streams = EventStreams(max_per_user=MAX_STREAMS_PER_USER if signs_in else None)
    hint_streams = HintStreams(console.live, streams)

    async def hints(request: ConsoleRequest) -> Response:
        return await hint_streams.open(request.request)

    app = Starlette(
        routes=[
            *reads,
            *changes,
            Route("/hints", _endpoint(console, hints), methods=["GET"]),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
            Route("/{rest:path}", _endpoint(console, _no_such_page)),
        ],
        middleware=[
            Middleware(RequestChecks, console.config.host_names),
            Middleware(RequireSignIn, sign_in_with(console.config.sign_in)),
        ],
    )
    app.state.event_streams = streams  # the live tail is a page, and opens streams too
    return app


def _endpoint(console: ConsoleContext, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        made = ConsoleRequest(request, console, request.user)
        try:
            reply = await answer_shared(made, answer)
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                log.exception(
                    "the page %s could not be made (request %s)",
                    request.url.path,
                    made.request_id,
                )
            reply = _show_failure(made, failure or _UNEXPECTED)
        reply.headers["x-request-id"] = made.request_id
        return reply

    return respond


def _show_failure(request: ConsoleRequest, failure: Failure) -> Response:
    return request.render("failure.html", status=failure.status, topics="", failure=failure)


async def _no_such_page(request: ConsoleRequest) -> Response:
    path = request.request.url.path
    remedy = "The navigation at the top has all screens."
    return _show_failure(request, Failure(404, "Not found", f"There is no page {path}.", remedy))
