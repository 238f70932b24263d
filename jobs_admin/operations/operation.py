"""One change of many jobs: its states, and the moves between them. Pure.

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

from jobs_admin.api.views.jobs import JobPlace
from jobs_admin.api.views.operations import OperationState, OperationView, RefusalView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobs_admin.api.views.operations import OperationFilter, OperationVerb

EXAMPLES: Final = 20
_ALIVE: Final = (OperationState.RUNNING, OperationState.STOPPING)


class Operation(OperationView):
    """A record: what operators see, and how far it is.

    `bound`: a position of the log. Jobs that came into their state after it are not meant.
    `cursor`: jobs are taken newest first; up to this place all are taken up. `page`: the numbers of
    those that were taken up and may not be settled. `beat` counts the writes of an owner, so that
    a record that stays the same has none.
    """

    bound: int
    cursor: JobPlace | None = None
    page: tuple[int, ...] = ()
    beat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operator asked for; `total` is how many jobs match now."""

    verb: OperationVerb
    filter: OperationFilter
    by: str
    reason: str | None
    rate: float | None
    total: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the owner is: what is settled so far, in all, and what is taken up."""

    cursor: JobPlace | None
    page: tuple[int, ...]
    done: int
    refused: Mapping[str, int]
    refusals: tuple[RefusalView, ...]


def start(operation_id: str, request: Request, bound: int, now: datetime) -> Operation:
    """No daemon owns it yet."""
    return Operation(
        id=operation_id,
        verb=request.verb,
        state=OperationState.RUNNING,
        filter=request.filter,
        by=request.by,
        reason=request.reason,
        rate=request.rate,
        total=request.total,
        refused={},
        created_at=now,
        updated_at=now,
        bound=bound,
    )


def claim(
    operation: Operation, owner: str, now: datetime, *, lease_is_over: bool
) -> Operation | None:
    """The operation under a new owner, or None when it is over or its owner lives."""
    if operation.state not in _ALIVE:
        return None
    if operation.owner is not None and not lease_is_over:
        return None
    return _moved(operation, now, owner=owner)


def advance(operation: Operation, progress: Progress, now: datetime) -> Operation:
    """The same progress may be written again, as when an answer got lost: only owners count."""
    return _moved(
        operation,
        now,
        cursor=progress.cursor,
        page=progress.page,
        done=progress.done,
        refused=dict(progress.refused),
        refusals=progress.refusals[:EXAMPLES],
    )


def stop(operation: Operation, by: str, now: datetime) -> Operation | None:
    """None when it is over. The owner of a running one ends it at its next write."""
    if operation.state not in _ALIVE:
        return None
    if operation.owner is None:
        return _ended(operation, OperationState.STOPPED, now, stopped_by=by)
    return _moved(operation, now, state=OperationState.STOPPING, stopped_by=by)


def finish(operation: Operation, now: datetime) -> Operation:
    """There is no job left, or it was asked to stop."""
    is_asked_to = operation.state is OperationState.STOPPING
    return _ended(operation, OperationState.STOPPED if is_asked_to else OperationState.DONE, now)


def fail(operation: Operation, error: str, now: datetime) -> Operation:
    return _ended(operation, OperationState.FAILED, now, error=error)


def release(operation: Operation, now: datetime) -> Operation:
    """Its owner leaves: another daemon may go on at once."""
    return _moved(operation, now, owner=None)


def _ended(operation: Operation, state: OperationState, now: datetime, **changes: str) -> Operation:
    return _moved(operation, now, state=state, owner=None, ended_at=now, **changes)


def _moved(operation: Operation, now: datetime, **changes: object) -> Operation:
    update: Mapping[str, object] = {**changes, "updated_at": now, "beat": operation.beat + 1}
    return operation.model_copy(update=update)
