"""A bulk operation: its states and the transitions between them. Pure.

start → running ─ advance ─ … ─ finish → done
           │ stop                fail   → failed
        stopping ─ finish → stopped
           (stop, while no daemon runs it → stopped)

A daemon owns a running operation from `claim` until it ends, it is released, or another daemon has
seen its record unchanged for the lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.jobs import JobCursor
from jobs_admin.api.views.operations import OperationState, OperationView, RefusalView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobs_admin.api.views.operations import OperationFilter, OperationVerb

MAX_EXAMPLES: Final = 20
_ALIVE: Final = (OperationState.RUNNING, OperationState.STOPPING)


class Operation(OperationView):
    """The stored record: what operators see, and the progress.

    `bound` is a position in the log; jobs that entered their state after it are not changed.
    `cursor` is that of the last job that was taken; jobs are taken newest first. `page` are
    the numbers of jobs that were taken and may not be settled. `beat` counts the owner's writes,
    so an unchanged record means that its owner is gone.
    """

    bound: int
    cursor: JobCursor | None = None
    page: tuple[int, ...] = ()
    beat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest:
    """What an operator requested; `total` is how many jobs match now."""

    verb: OperationVerb
    filter: OperationFilter
    by: str
    reason: str | None
    rate: float | None
    total: int
    run_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The owner's progress: what is settled in total, and which jobs are taken."""

    cursor: JobCursor | None
    page: tuple[int, ...]
    done: int
    refused: Mapping[str, int]
    refusals: tuple[RefusalView, ...]


def start(operation_id: str, request: OperationRequest, bound: int, now: datetime) -> Operation:
    """Make a new operation, which no daemon owns yet."""
    return Operation(
        id=operation_id,
        verb=request.verb,
        state=OperationState.RUNNING,
        filter=request.filter,
        by=request.by,
        reason=request.reason,
        rate=request.rate,
        run_at=request.run_at,
        total=request.total,
        refused={},
        created_at=now,
        updated_at=now,
        bound=bound,
    )


def claim(
    operation: Operation, owner: str, now: datetime, *, lease_expired: bool
) -> Operation | None:
    """Return the operation with a new owner, or None if it has ended or its owner is alive."""
    if operation.state not in _ALIVE:
        return None
    if operation.owner is not None and not lease_expired:
        return None
    return _moved(operation, now, owner=owner)


def advance(operation: Operation, progress: Progress, now: datetime) -> Operation:
    """Write the progress; the owner may repeat this when it received no reply."""
    return _moved(
        operation,
        now,
        cursor=progress.cursor,
        page=progress.page,
        done=progress.done,
        refused=dict(progress.refused),
        refusals=progress.refusals[:MAX_EXAMPLES],
    )


def stop(operation: Operation, by: str, now: datetime) -> Operation | None:
    """Return None if the operation has ended. The owner of a running one ends it later."""
    if operation.state not in _ALIVE:
        return None
    if operation.owner is None:
        return _ended(operation, OperationState.STOPPED, now, stopped_by=by)
    return _moved(operation, now, state=OperationState.STOPPING, stopped_by=by)


def finish(operation: Operation, now: datetime) -> Operation:
    """End the operation because no job is left, or a stop was requested."""
    is_stopping = operation.state is OperationState.STOPPING
    return _ended(operation, OperationState.STOPPED if is_stopping else OperationState.DONE, now)


def fail(operation: Operation, error: str, now: datetime) -> Operation:
    return _ended(operation, OperationState.FAILED, now, error=error)


def release(operation: Operation, now: datetime) -> Operation:
    """Remove the owner, so that another daemon may continue at once."""
    return _moved(operation, now, owner=None)


def _ended(operation: Operation, state: OperationState, now: datetime, **changes: str) -> Operation:
    return _moved(operation, now, state=state, owner=None, ended_at=now, **changes)


def _moved(operation: Operation, now: datetime, **changes: object) -> Operation:
    update: Mapping[str, object] = {**changes, "updated_at": now, "beat": operation.beat + 1}
    return operation.model_copy(update=update)
