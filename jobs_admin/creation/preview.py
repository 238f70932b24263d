"""What would become of a job if it were created now, from facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, assert_never

from jobs_admin.api.views.creation import CreationPreview, PlannedKeyView, WouldBe
from jobs_admin.queues.contract import has_payload_schema
from trellis_jobs.model.events import Created, Scheduled
from trellis_jobs.model.keys.backlog import Admitted, CoalescedInto, Rejected, Replaced
from trellis_jobs.model.redaction import redacted

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.model.keys.backlog import Admission

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """`event` is the job's first event. `admission` is None without a key, and for a delayed job.

    `consumer` is that of its queue, and None if no worker of the queue was ever started. `exists`:
    there is a job with its id.
    """

    queue: JobType[Any, Any]
    event: Created | Scheduled
    admission: Admission | None
    consumer: QueueConsumer | None
    exists: bool


@dataclass(frozen=True, slots=True)
class _Verdict:
    would: WouldBe
    sentence: str
    behind: int | None = None
    reason: str | None = None
    existing: str | None = None
    replaced: str | None = None


def preview_of(planned: PlannedJob) -> CreationPreview:
    event, verdict, queue = planned.event, _verdict(planned), planned.queue
    limits = event.try_limits
    timeout = (limits.timeout if limits else None) or queue.timeout
    return CreationPreview(
        valid=True,
        would=verdict.would,
        sentence=verdict.sentence,
        behind=verdict.behind,
        key=_key(planned),
        reason=verdict.reason,
        existing_job_id=verdict.existing,
        replaced_job_id=verdict.replaced,
        payload=redacted(event.payload, event.secrets),
        payload_checked=has_payload_schema(queue),
        payload_version=event.version,
        run_at=event.run_at,
        deadline=event.deadline,
        max_tries=event.max_tries,
        timeout_ms=None if timeout is None else timeout // _MILLISECOND,
        paused=planned.consumer.is_paused if planned.consumer else None,
    )


def _verdict(planned: PlannedJob) -> _Verdict:
    if planned.exists:
        job_id = planned.event.job.job_id
        sentence = f"Job {job_id} exists already, so no job would be created."
        return _Verdict(WouldBe.EXISTS, sentence, existing=job_id)
    if isinstance(planned.event, Scheduled):
        when = planned.event.run_at.isoformat(timespec="seconds").replace("+00:00", "Z")
        words = "Its key is checked then." if planned.event.concurrency else ""
        return _Verdict(WouldBe.DELAY, f"It would wait until {when}. {words}".strip())
    match planned.admission:
        case None:
            return _wait_for_worker(planned)
        case Admitted(state=state):
            ahead, before = len(state.queued) - 1, len(state.active)
            if state.free > ahead:
                return _wait_for_worker(planned)
            behind = ahead + before
            sentence = (
                f"It would wait for its key {state.display!r}: {before} running and {ahead} "
                f"waiting are before it, and {state.max_active} may run at once."
            )
            return _Verdict(WouldBe.WAIT, sentence, behind)
        case Replaced(state=state, replaced=replaced):
            return _Verdict(
                WouldBe.REPLACE,
                f"It would replace job {replaced.job_id}, which waits for the key "
                f"{state.display!r} the longest.",
                len(state.active) + len(state.queued) - 1,
                replaced=replaced.job_id,
            )
        case Rejected() | CoalescedInto():
            return _not_admitted(planned.admission)
        case _:
            assert_never(planned.admission)


def _not_admitted(refusal: Rejected | CoalescedInto) -> _Verdict:
    state, why = refusal.state, refusal.why
    full = (
        f"the key {state.display!r} has no room ({why.reason}, limit {why.limit}): "
        f"{len(state.active)} running, {len(state.queued)} waiting"
    )
    if isinstance(refusal, CoalescedInto):
        return _Verdict(
            WouldBe.COALESCE,
            f"No job would be created, and job {refusal.existing} would do its work: {full}.",
            reason=why.reason.value,
            existing=refusal.existing,
        )
    return _Verdict(WouldBe.REJECT, f"It would be rejected: {full}.", reason=why.reason.value)


def _wait_for_worker(planned: PlannedJob) -> _Verdict:
    """A key, if the job has one, is free for it."""
    consumer = planned.consumer
    if consumer is None:
        return _Verdict(WouldBe.WAIT, "It would wait: no worker of its queue was ever started.", 0)
    behind = consumer.pending
    if consumer.is_paused:
        because = f": {consumer.paused_because}" if consumer.paused_because else ""
        return _Verdict(WouldBe.WAIT, f"It would wait: its queue is paused{because}.", behind)
    if behind:
        return _Verdict(
            WouldBe.WAIT, f"It would wait for a worker, behind {behind} jobs of its queue.", behind
        )
    if consumer.waiting_pulls:
        return _Verdict(WouldBe.RUN, "It would run at once: a worker has a free slot.", 0)
    busy = "all workers are busy" if consumer.ack_pending else "no worker takes jobs of its queue"
    return _Verdict(WouldBe.WAIT, f"It would wait: {busy}.", 0)


def _key(planned: PlannedJob) -> PlannedKeyView | None:
    """With the jobs that the key has now, not with those that it would have."""
    held, policy = planned.event.concurrency, planned.queue.key_policy
    if held is None or policy is None:
        return None
    counts: dict[str, int] = {}
    if planned.admission is not None:
        state = planned.admission.state
        is_admitted = isinstance(planned.admission, Admitted)
        counts = {"active": len(state.active), "queued": len(state.queued) - is_admitted}
    return PlannedKeyView(
        key=held.key,
        key_hash=held.key_hash,
        max_active=policy.max_active,
        max_queued=policy.max_queued,
        **counts,
    )
