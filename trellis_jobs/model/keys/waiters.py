"""Choose which of the jobs waiting for a key in one process tries to acquire it next."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from trellis_jobs.model.keys.slots import due_before
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from trellis_jobs.model.keys.state import KeyState, Waiting

# How long a free slot is reserved for the oldest job, which may have no worker to start it.
HEAD_START: Final = timedelta(milliseconds=50)


class Admit(Value, frozen=True):
    """`may_overtake`: the head start of older jobs is over."""

    job_id: str
    may_overtake: bool = False


class Wait(Value, frozen=True):
    """Wait for a change of the key, or until the timeout."""

    timeout: timedelta | None = None


WaiterDecision: TypeAlias = Admit | Wait


def next_waiter(
    state: KeyState, waiters: Sequence[Waiting], *, now: datetime, free_for: timedelta
) -> WaiterDecision:
    """Choose from `waiters`, the jobs that wait in this process, oldest first.

    `free_for` is how long a slot has been known to be free. A job that still holds a slot from a
    lost attempt is admitted at once.
    """
    holders = {slot.job_id for slot in state.active}
    for waiting in waiters:
        if waiting.job_id in holders:
            return Admit(waiting.job_id)
    if state.free == 0 or not waiters:
        return Wait()
    first = waiters[0]
    if len(due_before(first, state, now)) < state.free:
        return Admit(first.job_id)
    if free_for >= HEAD_START:
        return Admit(first.job_id, may_overtake=True)
    return Wait(HEAD_START - free_for)
