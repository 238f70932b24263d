"""Use the admin runtime if one answers, and otherwise the server itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from jobs_admin.api.errors import NO_METHOD, Denied, Invalid, Unexpected
from trellis_jobs.errors import JobsError, NotConfirmed, NotPermitted, ServiceMissing

T = TypeVar("T")


async def ask_admin_or_server(
    request: Awaitable[T],
    directly: Callable[[JobsError], Awaitable[T]],
    *,
    is_change: bool = False,
) -> T:
    """`directly` gets the error that the request failed with.

    After a change that timed out there is no direct way: an admin runtime that hangs may still
    carry it out later, and would then undo what the operator did meanwhile. If the credentials do
    not permit the direct way either, the error of the request is raised, which says what to do.
    """
    try:
        return await request
    except JobsError as error:
        if not _is_unavailable(error) or (is_change and isinstance(error, NotConfirmed)):
            raise
        try:
            return await directly(error)
        except NotPermitted as denied:
            raise error from denied


def _is_unavailable(error: JobsError) -> bool:
    """The admin runtime does not answer, cannot do it, is too old, or these credentials may not."""
    if isinstance(error, Invalid):
        return error.message.startswith(NO_METHOD)
    return isinstance(error, (ServiceMissing, NotConfirmed, NotPermitted, Denied, Unexpected))
