"""The states of a worker process (running, quiet, terminate) and the legal changes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class WorkerState(StrEnum):
    RUNNING = "running"
    QUIET = "quiet"
    TERMINATE = "terminate"


REACHABLE: Final[Mapping[WorkerState, frozenset[WorkerState]]] = {
    WorkerState.RUNNING: frozenset({WorkerState.QUIET, WorkerState.TERMINATE}),
    WorkerState.QUIET: frozenset({WorkerState.RUNNING, WorkerState.TERMINATE}),
    WorkerState.TERMINATE: frozenset(),
}


def follow(current: WorkerState, directive: WorkerState) -> WorkerState:
    """The state after a directive. A worker never leaves `terminate`."""
    return directive if directive in REACHABLE[current] else current
