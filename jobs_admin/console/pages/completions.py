"""Completions of the word at the end of a filter's text, for the filter bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from jobs_admin.console.completions import FieldWord, KnownWord, last_word

if TYPE_CHECKING:
    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest

_LIMIT: Final = 12
_MAX_PREFIX: Final = 500


async def show(request: ConsoleRequest) -> Response:
    word = last_word(request.query.get("q", ""), request.console.now())
    if isinstance(word, FieldWord):
        return JSONResponse(word.completions())
    if isinstance(word, KnownWord):
        return JSONResponse(list(word.words))
    found = await request.reads.suggest(
        word.field,
        word.prefix[:_MAX_PREFIX],
        service=word.within.service,
        type=word.within.type,
        limit=_LIMIT,
    )
    return JSONResponse(word.completions(found))
