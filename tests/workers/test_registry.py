"""What an admin runtime concludes from the records that it reads, by its own clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from jobs_admin.workers.registry import WorkerRegistry
from trellis_jobs.jetstream.control.record_feed import ReadingBegins
from trellis_jobs.jetstream.control.worker_feed import WorkerChange
from trellis_jobs.jetstream.control.worker_records import StoredWorker
from trellis_jobs.model.values import replace
from trellis_jobs.model.worker_record import (
    QueueSlots,
    WorkerProfile,
    WorkerRecord,
    declare_dead,
    recovered,
)
from trellis_jobs.model.worker_states import WorkerState

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEAD_AFTER = 25


def record(instance: str) -> WorkerRecord:
    profile = WorkerProfile(
        service="lab",
        instance=instance,
        hostname="host-3",
        pid=812,
        started_at=NOW,
        queues=(QueueSlots("work", 10),),
        concurrency=10,
        dead_after=timedelta(seconds=DEAD_AFTER),
    )
    return WorkerRecord(profile=profile)


@dataclass
class Reader:
    """A registry, and a clock that the test sets."""

    now: float = 1000.0
    revision: int = 0
    registry: WorkerRegistry = field(init=False)

    def __post_init__(self) -> None:
        self.registry = WorkerRegistry(lambda: self.now)
        self.registry.apply(ReadingBegins(is_complete=True))

    def read(self, changed: WorkerRecord) -> None:
        self.revision += 1
        self.registry.apply(WorkerChange(StoredWorker(changed, self.revision), 0))

    def confirm_for(self, seconds: int) -> None:
        """The server confirms every second that no record changes."""
        for _ in range(seconds):
            self.now += 1
            self.registry.apply(None)

    @property
    def silent(self) -> list[str]:
        return [known.record.profile.instance for known in self.registry.silent()]

    @property
    def unrecovered(self) -> list[str]:
        return [known.record.profile.instance for known in self.registry.unrecovered()]


def test_a_worker_whose_record_does_not_change_is_silent() -> None:
    reader = Reader()
    reader.read(record("a"))
    reader.read(record("b"))
    reader.confirm_for(DEAD_AFTER - 1)
    assert reader.silent == []
    reader.read(replace(record("b"), beat=2))
    reader.confirm_for(1)
    assert reader.silent == ["a"]


def test_time_without_a_confirmation_is_no_silence() -> None:
    """The server, the network or this process stood still, and perhaps the workers, too."""
    reader = Reader()
    reader.read(record("a"))
    reader.confirm_for(DEAD_AFTER - 1)
    reader.now += 60
    assert reader.silent == []
    reader.confirm_for(DEAD_AFTER)
    assert reader.silent == []
    reader.confirm_for(1)
    assert reader.silent == ["a"]


def test_after_a_new_beginning_every_worker_has_its_full_time() -> None:
    reader = Reader()
    reader.read(record("a"))
    reader.confirm_for(DEAD_AFTER - 1)
    reader.registry.apply(ReadingBegins(is_complete=False))
    reader.confirm_for(DEAD_AFTER - 1)
    assert reader.silent == []
    reader.confirm_for(1)
    assert reader.silent == ["a"]


def test_another_stream_begins_with_no_workers() -> None:
    reader = Reader()
    reader.read(record("a"))
    reader.registry.apply(ReadingBegins(is_complete=True))
    assert reader.registry.all() == []


def test_a_stopped_worker_is_not_silent() -> None:
    reader = Reader()
    reader.read(replace(record("a"), state=WorkerState.TERMINATED))
    reader.confirm_for(2 * DEAD_AFTER)
    assert reader.silent == []


def test_a_dead_worker_is_listed_until_it_is_recovered() -> None:
    reader = Reader()
    dead = declare_dead(record("a"), by="an admin", at=NOW, lost={})
    reader.read(dead)
    assert reader.unrecovered == ["a"]
    reader.read(recovered(dead))
    assert reader.unrecovered == []


def test_a_record_that_the_server_has_removed_is_forgotten() -> None:
    reader = Reader()
    reader.read(replace(record("a"), state=WorkerState.TERMINATED))
    reader.confirm_for(60)
    assert len(reader.registry.all()) == 1
    reader.confirm_for(1)
    assert reader.registry.all() == []


def test_an_own_write_counts_before_it_is_read() -> None:
    reader = Reader()
    reader.read(record("a"))
    dead = declare_dead(record("a"), by="an admin", at=NOW, lost={})
    reader.registry.replace(StoredWorker(dead, 7))
    assert reader.unrecovered == ["a"]
    reader.registry.replace(StoredWorker(record("a"), 3))
    assert reader.unrecovered == ["a"]
