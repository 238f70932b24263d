"""The states of a worker process and the legal changes, as in the worker protocol (seed 004)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class WorkerState(StrEnum):
    """`quiet` takes no new jobs. `terminate` is stopping, `terminated` has stopped."""

    RUNNING = "running"
    QUIET = "quiet"
    TERMINATE = "terminate"
    TERMINATED = "terminated"


# What an operator can ask for. A worker reports `terminated` itself.
DIRECTIVES: Final = (WorkerState.RUNNING, WorkerState.QUIET, WorkerState.TERMINATE)

REACHABLE: Final[Mapping[WorkerState, frozenset[WorkerState]]] = {
    WorkerState.RUNNING: frozenset({WorkerState.QUIET, WorkerState.TERMINATE}),
    WorkerState.QUIET: frozenset({WorkerState.RUNNING, WorkerState.TERMINATE}),
    WorkerState.TERMINATE: frozenset({WorkerState.TERMINATED}),
    WorkerState.TERMINATED: frozenset(),
}


def follow(current: WorkerState, directive: WorkerState) -> WorkerState:
    """The state after a directive. A worker never leaves `terminate` to take jobs again."""
    return directive if directive in REACHABLE[current] else current
