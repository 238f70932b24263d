"""The state of a key: its running and waiting jobs. Processes change it by compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import field

from trellis_jobs.model.identity import check_service, check_token
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.events import Begun

Unknown = Mapping[str, Any]


KEYS_BUCKET: Final = "JOBS_KEYS"


class KeyAddress(Value, frozen=True):
    """`bucket` differs for queues shared with runtimes that store keys in another bucket."""

    service: str
    job_type: str
    hash: str
    bucket: str = KEYS_BUCKET

    def __post_init__(self) -> None:
        check_service(self.service)
        check_token("job type", self.job_type)
        check_token("key hash", self.hash)


class Slot(Value, frozen=True, kw_only=True):
    """A running job. `token` is the id of its attempt, which alone may renew or release the slot.

    The times are informational: no process ends another's lease by its own wall clock. `since` is
    the log sequence that the holder knew; a decision about the slot must read at least that far.
    """

    job_id: str
    token: str
    instance: str
    started_at: datetime
    heartbeat_at: datetime
    expires_at: datetime
    tries: int
    since: int = 0
    context: JobContext | None = None
    unknown: Unknown = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.token:
            raise ValueError("a slot needs the token of the attempt that holds it")


class Waiting(Value, frozen=True, kw_only=True):
    """An admitted job that does not run. Before `not_before`, younger jobs need not wait for it."""

    job_id: str
    created_at: datetime
    request_id: str
    not_before: datetime | None = None
    context: JobContext | None = None
    unknown: Unknown = field(default_factory=dict)


def waiting_entry(begun: Begun) -> Waiting:
    """The entry of a run in the queue of its key."""
    return Waiting(
        job_id=begun.job.job_id,
        created_at=begun.at,
        request_id=begun.context.request_id,
        context=begun.context,
    )


class KeyState(Value, frozen=True, kw_only=True):
    """`unknown` holds fields of other runtimes, which are preserved."""

    address: KeyAddress
    display: str
    max_active: int
    max_queued: int
    active: tuple[Slot, ...] = ()
    queued: tuple[Waiting, ...] = ()
    stale_takeovers: int = 0
    updated_at: datetime | None = None
    unknown: Unknown = field(default_factory=dict)

    @property
    def free(self) -> int:
        return max(0, self.max_active - len(self.active))

    def slot_of(self, job_id: str) -> Slot | None:
        return next((slot for slot in self.active if slot.job_id == job_id), None)

    def is_queued(self, job_id: str) -> bool:
        return any(waiting.job_id == job_id for waiting in self.queued)
