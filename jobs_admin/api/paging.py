"""Lists that are asked for page by page: all entries of one, or as many as are wanted.

An answer holds at most what fits into one message, so a page of large entries may come short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from jobs_admin.api.errors import Unexpected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from jobs_admin.api.views.jobs import JobPage, JobPlace, JobView
    from jobs_admin.api.views.shape import Page

T = TypeVar("T")
P = TypeVar("P", bound="Page[Any]")


async def each(
    turn: Callable[[int], Awaitable[Page[T]]], identity: Callable[[T], object]
) -> AsyncIterator[T]:
    """Entries that moved to a later page meanwhile are not told twice."""
    offset: int | None = 0
    told: set[object] = set()
    while offset is not None:
        page = await turn(offset)
        for entry in page.entries:
            if identity(entry) not in told:
                told.add(identity(entry))
                yield entry
        offset = page.next_offset


async def each_of_all(
    turn: Callable[[int], Awaitable[Page[T]]], identity: Callable[[T], object]
) -> AsyncIterator[T]:
    for entry in [each async for each in each(turn, identity)]:
        yield entry


async def each_job(
    turn: Callable[[JobPlace | None], Awaitable[JobPage]],
) -> AsyncIterator[JobView]:
    """From place to place, which no change moves."""
    before: JobPlace | None = None
    while True:
        page = await turn(before)
        for job in page.entries:
            yield job
        before = page.next_before
        if before is None:
            break
    if page.next_offset is not None:
        raise Unexpected("this admin runtime is older than its client, and tells no `nextBefore`")


async def filled(
    turn: Callable[[int, int], Awaitable[Page[T]]], offset: int, limit: int
) -> Page[T]:
    """One page of `limit` entries, if there are so many, asked for with an offset and a limit."""
    page = await turn(offset, limit)
    entries, following = page.entries, page.next_offset
    while following is not None and len(entries) < limit:
        more = await turn(following, limit - len(entries))
        entries, following = (*entries, *more.entries), more.next_offset if more.entries else None
    return _with(page, entries, next_offset=following)


async def filled_with_jobs(
    turn: Callable[[JobPlace | None, int], Awaitable[JobPage]], limit: int
) -> JobPage:
    """The same of jobs, from place to place."""
    page = await turn(None, limit)
    entries, following = page.entries, page.next_before
    while following is not None and len(entries) < limit:
        more = await turn(following, limit - len(entries))
        entries, following = (*entries, *more.entries), more.next_before if more.entries else None
    end = page.offset + len(entries)
    next_offset = end if page.next_offset is not None and end < page.count else None
    return _with(page, entries, next_offset=next_offset, next_before=following)


def _with(page: P, entries: tuple[Any, ...], **following: Any) -> P:
    """What does not follow is left out, as it is in an answer."""
    if len(entries) == len(page.entries):
        return page
    kept = page.model_fields_set - following.keys()
    told = {name: value for name, value in following.items() if value is not None}
    values = {name: getattr(page, name) for name in kept} | told | {"entries": entries}
    return page.model_construct(**values)
