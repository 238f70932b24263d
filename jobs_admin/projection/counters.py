"""Counts of jobs of each kind, updated as jobs change, so that no query has to count them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jobs_admin.projection.bulk_statement import BulkStatement
from jobs_admin.projection.rows import COLUMNS
from trellis_jobs.model.states import ENQUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobs_admin.projection.batch import Columns

# Changes are counted by slots of ten minutes, in microseconds.
SLOT: Final = 600_000_000
MINUTE: Final = 60_000_000
# Those of groups also by longer slots: how many minutes each kind has, the longest first.
GROUP_SLOTS: Final = (1440, 360, 60, 10)

Kind = tuple[str | int, ...]
# A kind, and by how much each of its numbers changes.
Change = tuple[Kind, tuple[int, ...]]
Counts: TypeAlias = "Callable[[Columns], bool]"


@dataclass(frozen=True, slots=True)
class CounterTable:
    """A table with numbers of jobs. A row whose number becomes 0 is removed."""

    table: str
    kind: tuple[str, ...]
    kind_of: Callable[[Columns], Kind]
    numbers: Mapping[str, Counts]

    @property
    def add(self) -> BulkStatement:
        """Adds to a row, whether it is there or not: its kind, then numbers."""
        sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in self.numbers)
        return BulkStatement(
            f"INSERT INTO {self.table}",
            len(self.kind) + len(self.numbers),
            f"ON CONFLICT ({', '.join(self.kind)}) DO UPDATE SET {sums}",
        )

    @property
    def clear(self) -> BulkStatement:
        """Takes out rows of no jobs, by their kinds; + keeps it to the primary key."""
        kind = ", ".join(self.kind)
        return BulkStatement(
            f"WITH fewer ({kind}) AS (",
            len(self.kind),
            f") DELETE FROM {self.table} WHERE ({kind}) IN (SELECT * FROM fewer) AND +jobs = 0",  # noqa: S608
        )

    def changes(self, before: Sequence[Columns], after: Sequence[Columns]) -> list[Change]:
        """By how much each row changes in all, with the jobs as they were and as they are now."""
        nets = []
        for counts in self.numbers.values():
            net = Counter(self.kind_of(job) for job in after if counts(job))
            net.subtract(self.kind_of(job) for job in before if counts(job))
            nets.append(net)
        kinds = sorted({kind for net in nets for kind, number in net.items() if number})
        return [(kind, tuple(net[kind] for net in nets)) for kind in kinds]


def _columns(*names: str) -> Callable[[Columns], Any]:
    return itemgetter(*map(COLUMNS.index, names))


_state, _updated_at, _key = map(_columns, ("state", "updated_at", "key"))
_error, _cause, _app_version = map(_columns, ("error", "cause", "app_version"))
_by_state = _columns("service", "type", "state")


def _by_change(job: Columns) -> Kind:
    return (_updated_at(job) // SLOT, *_by_state(job))


def _every(_: Columns) -> bool:
    return True


def _has_cause(job: Columns) -> bool:
    return bool(_cause(job))


def _has_cause_and_version(job: Columns) -> bool:
    return bool(_cause(job)) and _app_version(job) is not None


def _group_by_change(minutes: int) -> Callable[[Columns], Kind]:
    return lambda job: (minutes, _updated_at(job) // (minutes * MINUTE), _cause(job), _state(job))


def _has_error(job: Columns) -> bool:
    return _error(job) is not None


def _is_live_with_key(job: Columns) -> bool:
    return _key(job) is not None and _state(job) in ENQUEUED


def _is_active_with_key(job: Columns) -> bool:
    return _key(job) is not None and _state(job) == JobState.ACTIVE


_STATE: Final = ("service", "type", "state")
_ERROR: Final = (*_STATE, "cause", "error")
_GROUP: Final = ("cause", "service", "type", "state")
_VALUES: Final = ("cause", "state", "error_values")
_VERSION: Final = ("cause", "state", "app_version")
_SLOT_OF_GROUP: Final = ("minutes", "slot", "cause", "state")
_KEY: Final = ("service", "type", "key_hash", "key")
COUNTER_TABLES: Final = (
    CounterTable("job_counts", _STATE, _by_state, {"jobs": _every}),
    CounterTable("change_counts", ("slot", *_STATE), _by_change, {"jobs": _every}),
    CounterTable(
        "key_counts",
        _KEY,
        _columns(*_KEY),
        {
            "jobs": _is_live_with_key,
            "active": _is_active_with_key,
            "waiting": lambda job: _is_live_with_key(job) and not _is_active_with_key(job),
        },
    ),
    CounterTable("error_counts", _ERROR, _columns(*_ERROR), {"jobs": _has_error}),
    CounterTable("group_counts", _GROUP, _columns(*_GROUP), {"jobs": _has_cause}),
    CounterTable("group_value_counts", _VALUES, _columns(*_VALUES), {"jobs": _has_cause}),
    CounterTable(
        "group_version_counts", _VERSION, _columns(*_VERSION), {"jobs": _has_cause_and_version}
    ),
    *(
        CounterTable(
            "group_change_counts", _SLOT_OF_GROUP, _group_by_change(minutes), {"jobs": _has_cause}
        )
        for minutes in GROUP_SLOTS
    ),
)
