"""Append, and when the server refuses: read the job again, decide again, append again.

Every change of a job goes this way (design D1). A writer appends after the newest event that it
knows. If the job has a newer one, the server refuses the append and names its sequence, so the
writer reads at least that far before it decides again.

Writers that usually succeed make the first attempt themselves, and call `decide_again` only with
its refusal. The others use `append_planned`. A worker's claim (worker/claim.py) has a loop of its
own, because it also acquires slots and takes over lost attempts in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from trellis_jobs.jetstream.client.pub_ack import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trellis_jobs.model.events import Event
    from trellis_jobs.model.job_status import Head

R = TypeVar("R")
S = TypeVar("S")


class _HasHead(Protocol):
    """What a writer knows about a job, up to its newest event."""

    @property
    def head(self) -> Head: ...


K = TypeVar("K", bound=_HasHead)


@dataclass(frozen=True, slots=True)
class Appended(Generic[K]):
    """The appended event, the job's head after it, and what the event was planned from."""

    head: Head
    event: Event
    before: K


async def decide_again(
    refusal: Refused,
    read: Callable[[Refused], Awaitable[S | None]],
    attempt: Callable[[S], Awaitable[R | Refused]],
) -> R | None:
    """Read and attempt until the server does not refuse. Returns None when the job is gone.

    `read` returns the job at the sequence that the refusal names, or later.
    """
    answer: R | Refused = refusal
    while isinstance(answer, Refused):
        state = await read(answer)
        if state is None:
            return None
        answer = await attempt(state)
    return answer


async def append_planned(
    known: K,
    plan: Callable[[K], Event | None],
    *,
    append: Callable[[Head, Event], Awaitable[Head | Refused]],
    read: Callable[[Refused], Awaitable[K | None]],
) -> Appended[K] | K | None:
    """Append the event that `plan` returns, and plan again whenever the job has changed.

    If the plan is to append nothing, returns what it was made from. Returns None when the job is
    gone.
    """

    async def attempt(state: K) -> Appended[K] | K | Refused:
        event = plan(state)
        if event is None:
            return state
        answer = await append(state.head, event)
        return answer if isinstance(answer, Refused) else Appended(answer, event, state)

    first = await attempt(known)
    return await decide_again(first, read, attempt) if isinstance(first, Refused) else first
