"""Which of the jobs that wait for a key in one process may try for it next."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from trellis_jobs.model.keys.slots import due_before
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from trellis_jobs.model.keys.state import KeyState, Waiting

# So long a free slot is left to a job that is first by age but may not be there to take it.
HEAD_START: Final = timedelta(milliseconds=50)


class Admit(Value, frozen=True):
    """`may_overtake`: it has waited long enough for those before it."""

    job_id: str
    may_overtake: bool = False


class Wait(Value, frozen=True):
    """Nothing to do but wait: for news of the key, or at most so long."""

    at_most: timedelta | None = None


WaiterDecision: TypeAlias = Admit | Wait


def next_waiter(
    state: KeyState, line: Sequence[Waiting], *, now: datetime, free_for: timedelta
) -> WaiterDecision:
    """`line`: those that wait here, oldest first; `free_for`: since when a slot is known free.

    A job that still has its slot, from an attempt that was lost, takes it back at once.
    """
    holders = {slot.job_id for slot in state.active}
    for waiting in line:
        if waiting.job_id in holders:
            return Admit(waiting.job_id)
    if state.free == 0 or not line:
        return Wait()
    first = line[0]
    if len(due_before(first, state, now)) < state.free:
        return Admit(first.job_id)
    if free_for >= HEAD_START:
        return Admit(first.job_id, may_overtake=True)
    return Wait(HEAD_START - free_for)
