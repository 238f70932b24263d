"""Answers open pages that show the same and read again at the same time, with one rendered page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from jobs_admin.console.users import Role

if TYPE_CHECKING:
    from jobs_admin.console.console_request import ConsoleRequest
    from jobs_admin.console.screen import Answer


async def answer_shared(request: ConsoleRequest, answer: Answer) -> Response:
    """The changing part of a page depends on its address and on the roles of its user alone."""
    if not request.is_refresh or request.request.method != "GET":
        return await answer(request)

    async def render() -> Any:
        return await answer(request)

    roles = " ".join(sorted(role for role in Role if request.may(role)))
    name = f"page {request.request.url.path}?{request.request.url.query} {roles}"
    shared: Response = await request.console.shared.get(name, render, min_seq=request.min_seq)
    if not isinstance(shared, HTMLResponse):  # a stream can be sent only once
        return await answer(request)
    return HTMLResponse(shared.body, shared.status_code)
