"""What operators can do to many jobs: the words on the pages, and the states it is legal in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.operations import OperationVerb
from trellis_jobs.model.delays import MOVABLE, RELEASABLE
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.reducer import RULES
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Verb:
    """`label` is on buttons, `done` in sentences: "3 jobs were replayed"."""

    name: OperationVerb
    label: str
    done: str
    effect: str
    legal_from: frozenset[JobState]
    is_dangerous: bool = False


def _legal_from(kind: EventKind) -> frozenset[JobState]:
    return frozenset(state for state in RULES[kind].legal_from if state is not None)


_ALL: Final = (
    Verb(
        OperationVerb.RETRY,
        "Retry",
        "retried",
        "Failed and dead jobs run again, each with all its tries.",
        _legal_from(EventKind.RETRIED),
    ),
    Verb(
        OperationVerb.REPLAY,
        "Replay",
        "replayed",
        "Dead jobs run again, each with all its tries.",
        frozenset({JobState.DEAD}),
    ),
    Verb(
        OperationVerb.RUN_NOW,
        "Run now",
        "released",
        "Delayed jobs, and jobs that wait for their next try, run at once.",
        RELEASABLE,
    ),
    Verb(
        OperationVerb.RESCHEDULE,
        "Reschedule",
        "rescheduled",
        "Jobs that wait are moved to another time.",
        MOVABLE,
    ),
    Verb(
        OperationVerb.CANCEL,
        "Cancel",
        "cancelled",
        "Jobs that have not ended are ended. Running handlers are stopped.",
        _legal_from(EventKind.CANCELLED),
        is_dangerous=True,
    ),
    Verb(
        OperationVerb.DISMISS,
        "Dismiss",
        "dismissed",
        "Dead jobs leave the dead letters and are not run again.",
        _legal_from(EventKind.DISMISSED),
        is_dangerous=True,
    ),
)
VERBS: Final[Mapping[OperationVerb, Verb]] = {verb.name: verb for verb in _ALL}


def applicable(states: Sequence[JobState] | None) -> list[Verb]:
    """The verbs that are legal for jobs in all of these states; None means any state."""
    if not states:
        return list(_ALL)
    return [verb for verb in _ALL if verb.legal_from.issuperset(states)]
