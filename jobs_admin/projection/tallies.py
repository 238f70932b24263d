"""How many jobs there are of each kind, kept as jobs move, so that nobody has to count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from jobs_admin.projection.rows import folded_error, last_change
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trellis_jobs.model.job import Job

# Changes are counted by slots of ten minutes, in microseconds.
SLOT: Final = 600_000_000

Kind = tuple[str | int, ...]
# What a job counts as, and with how much in each column of numbers.
Share = tuple[Kind, tuple[int, ...]]
# A job as it is counted, and as it is now; None where it is not there.
Move: TypeAlias = "tuple[Job | None, Job | None]"


@dataclass(frozen=True, slots=True)
class Tally:
    """A table whose rows are numbers of jobs; one that has come down to no job is not there."""

    table: str
    kind: tuple[str, ...]
    numbers: tuple[str, ...]
    share: Callable[[Job], Share | None]

    @property
    def add(self) -> str:
        """The statement that adds to a row, whether it is there or not: its kind, then numbers."""
        marks = ", ".join("?" * (len(self.kind) + len(self.numbers)))
        sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in self.numbers)
        return (
            f"INSERT INTO {self.table} VALUES ({marks}) "  # noqa: S608 - our own names
            f"ON CONFLICT ({', '.join(self.kind)}) DO UPDATE SET {sums}"
        )

    @property
    def clear(self) -> str:
        """The statement that takes out a row of no jobs."""
        of_kind = " AND ".join(f"{name} = ?" for name in self.kind)
        return f"DELETE FROM {self.table} WHERE {of_kind} AND jobs = 0"  # noqa: S608

    def changes(self, moves: Iterable[Move]) -> list[Share]:
        """By how much each row changes in all."""
        sums: dict[Kind, list[int]] = {}
        for before, after in moves:
            for job, sign in ((before, -1), (after, 1)):
                share = self.share(job) if job else None
                if share is not None:
                    kind, numbers = share
                    row = sums.setdefault(kind, [0] * len(numbers))
                    for place, number in enumerate(numbers):
                        row[place] += sign * number
        return [(kind, tuple(sums[kind])) for kind in sorted(sums) if any(sums[kind])]


def _by_state(job: Job) -> Share:
    address = job.address
    return (address.service, address.job_type, job.state.value), (1,)


def _by_change(job: Job) -> Share:
    kind, numbers = _by_state(job)
    return (last_change(job) // SLOT, *kind), numbers


def _by_key(job: Job) -> Share | None:
    held, address = job.run.concurrency, job.address
    if held is None or job.is_over:
        return None
    kind = (address.service, address.job_type, held.key_hash, held.key)
    return kind, (1, int(job.state is JobState.ACTIVE))


def _by_error(job: Job) -> Share | None:
    if job.last_error is None:
        return None
    kind, numbers = _by_state(job)
    return (*kind, folded_error(job.last_error)), numbers


TALLIES: Final = (
    Tally("job_counts", ("service", "type", "state"), ("jobs",), _by_state),
    Tally("change_counts", ("slot", "service", "type", "state"), ("jobs",), _by_change),
    Tally("key_counts", ("service", "type", "key_hash", "key"), ("jobs", "active"), _by_key),
    Tally("error_counts", ("service", "type", "state", "error"), ("jobs",), _by_error),
)
