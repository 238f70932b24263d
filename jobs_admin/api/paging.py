"""Helpers for paged lists: iterate over all entries, or fill one page.

A reply holds at most what fits into one message, so a page of large entries may be shorter than
requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from jobs_admin.api.errors import Unexpected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.jobs import JobCursor, JobPage, JobView

T = TypeVar("T")
P = TypeVar("P", bound="Page[Any]")


async def iterate(
    fetch: Callable[[int], Awaitable[Page[T]]], identity: Callable[[T], object]
) -> AsyncIterator[T]:
    """Yield each entry once, even if it moves to a later page in the meantime."""
    offset: int | None = 0
    seen: set[object] = set()
    while offset is not None:
        page = await fetch(offset)
        for entry in page.entries:
            if identity(entry) not in seen:
                seen.add(identity(entry))
                yield entry
        offset = page.next_offset


async def iterate_snapshot(
    fetch: Callable[[int], Awaitable[Page[T]]], identity: Callable[[T], object]
) -> AsyncIterator[T]:
    """Read all pages before the first entry is yielded."""
    for entry in [each async for each in iterate(fetch, identity)]:
        yield entry


async def iterate_jobs(
    fetch: Callable[[JobCursor | None], Awaitable[JobPage]],
) -> AsyncIterator[JobView]:
    """Continue after the last job's cursor, which does not change when jobs change."""
    before: JobCursor | None = None
    while True:
        page = await fetch(before)
        for job in page.entries:
            yield job
        before = page.next_before
        if before is None:
            break
    if page.next_offset is not None:
        raise Unexpected(
            "the admin runtime is older than this client and does not send `nextBefore`"
        )


async def full_page(fetch: Callable[[int, int], Awaitable[P]], offset: int, limit: int) -> P:
    """Fetch with an offset and a limit until the page has `limit` entries, or there are no more."""
    page = await fetch(offset, limit)
    entries, following = page.entries, page.next_offset
    while following is not None and len(entries) < limit:
        more = await fetch(following, limit - len(entries))
        entries, following = (*entries, *more.entries), more.next_offset if more.entries else None
    return _with(page, entries, next_offset=following)


async def full_job_page(
    fetch: Callable[[JobCursor | None, int], Awaitable[JobPage]], limit: int
) -> JobPage:
    """Like full_page(), but continues after the last job's cursor."""
    page = await fetch(None, limit)
    entries, following = page.entries, page.next_before
    while following is not None and len(entries) < limit:
        more = await fetch(following, limit - len(entries))
        entries, following = (*entries, *more.entries), more.next_before if more.entries else None
    end = page.offset + len(entries)
    next_offset = end if page.next_offset is not None and end < page.count else None
    return _with(page, entries, next_offset=next_offset, next_before=following)


def _with(page: P, entries: tuple[Any, ...], **following: Any) -> P:
    """Leave fields that are None unset, as in a reply from the admin runtime."""
    if len(entries) == len(page.entries):
        return page
    kept = page.model_fields_set - following.keys()
    present = {name: value for name, value in following.items() if value is not None}
    values = {name: getattr(page, name) for name in kept} | present | {"entries": entries}
    return page.model_construct(**values)
