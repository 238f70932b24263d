"""All entries of a list that is asked for page by page, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jobs_admin.errors import Unexpected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from jobs_admin.views.jobs import JobPage, JobPlace, JobView
    from jobs_admin.views.shape import Page

T = TypeVar("T")


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
