"""Settle an attempt: choose the event to append and the acknowledgement for JetStream."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

from trellis_jobs.errors.handlers import MAX_RETRY_DELAY
from trellis_jobs.model import events as e
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, replace, repr_with

if TYPE_CHECKING:
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.concurrency import Concurrency
    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.retry import RetryPolicy


class Succeeded(Value, frozen=True):
    """`secrets`: JSON Pointers to the secret fields of the result."""

    result: Json
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return repr_with(self, result=redacted(self.result, self.secrets))


class Retryable(Value, frozen=True):
    error: JobError
    after: timedelta | None = None


class Fatal(Value, frozen=True):
    error: JobError


class JobAlreadyEnded(Value, frozen=True):
    """The job was ended while its handler ran (cancelled, expired), and the handler stopped."""


class Superseded(Value, frozen=True):
    """Another attempt took over the job while this attempt's handler ran."""


class Interrupted(Value, frozen=True):
    """The worker is shutting down, so the attempt does not count as a try."""


class ContractMismatch(Value, frozen=True):
    """This worker's contract rejects the job, but another worker's contract accepts it."""

    error: JobError
    after: timedelta


class Snoozed(Value, frozen=True):
    """The handler asked to run again at `until`: not a failure, and no try is used.

    `error` has the type `snooze` and the handler's reason.
    """

    error: JobError
    until: datetime


Outcome: TypeAlias = (
    Succeeded
    | Retryable
    | Fatal
    | JobAlreadyEnded
    | Superseded
    | Interrupted
    | ContractMismatch
    | Snoozed
)


class Ack(Value, frozen=True):
    pass


class Nak(Value, frozen=True):
    delay: timedelta = timedelta()


class Term(Value, frozen=True):
    """Tell the server never to deliver the message again."""

    reason: str


class NoAck(Value, frozen=True):
    """Send nothing, because the message now belongs to another delivery."""


Answer: TypeAlias = Ack | Nak | Term | NoAck


class Settlement(Value, frozen=True):
    event: e.Event | None
    answer: Answer


class AttemptContext(Value, frozen=True):
    """The attempt that is to be settled, and the settings of its job and queue.

    `snoozes` is how often the job was snoozed before this attempt.
    """

    job: JobAddress
    context: JobContext
    attempt: Attempt
    tries: int
    max_tries: int
    policy: RetryPolicy
    dead_letters: bool = True
    is_last_delivery: bool = False
    concurrency: Concurrency | None = None
    snoozes: int = 0
    deadline: datetime | None = None

    def event_fields(self, at: datetime) -> e.AttemptFields:
        """The fields that all events of this attempt have."""
        return {
            "job": self.job,
            "context": self.context,
            "at": at,
            "tries": self.tries,
            "attempt": self.attempt,
            "concurrency": self.concurrency,
        }


def settle(
    outcome: Outcome,
    running: AttemptContext,
    *,
    at: datetime,
    random: float,
    notes: Notes = NOTHING_NOTED,
) -> Settlement:
    """Decide the event and the acknowledgement with which an attempt ends.

    The worker appends the event before it acknowledges the message. If it dies in between, the
    server redelivers the message to a worker that finds the job ended and acknowledges it, so no
    job is lost or run twice.
    """
    match outcome:
        case Succeeded(result, secrets):
            done = e.Completed(
                **running.event_fields(at), notes=notes, result=result, secrets=secrets
            )
            return Settlement(done, Ack())
        case Retryable(error, after):
            if running.tries >= running.max_tries or running.is_last_delivery:
                return _mark_dead(error, running, at, notes)
            planned = running.policy.delay_after(running.tries, random)
            return _retry(error, planned if after is None else after, running, at, notes)
        case Fatal(error):
            return _fail(error, running, at, notes)
        case Interrupted() | ContractMismatch() | Snoozed():
            return _settle_unfailed_job(outcome, running, at, notes)
        case JobAlreadyEnded() | Superseded():
            return _settle_lost_job(outcome, running, at)
        case _:
            assert_never(outcome)


def _settle_unfailed_job(
    outcome: Interrupted | ContractMismatch | Snoozed,
    running: AttemptContext,
    at: datetime,
    notes: Notes,
) -> Settlement:
    """Settle an attempt that ended before its job was done, without an error of the job."""
    match outcome:
        case Interrupted():
            return _requeue(_shutdown(running, at), running, at, notes)
        case ContractMismatch(error, after):
            end = _fail if running.is_last_delivery else partial(_requeue, delay=after)
            return end(error, running, at, notes)
        case Snoozed(error, until):
            return _snooze(error, until, running, at, notes)


def _settle_lost_job(
    outcome: JobAlreadyEnded | Superseded, running: AttemptContext, at: datetime
) -> Settlement:
    if isinstance(outcome, JobAlreadyEnded):
        return Settlement(None, Ack())
    return Settlement(superseded_note(running, "it was superseded while it ran", at), NoAck())


def _fail(error: JobError, running: AttemptContext, at: datetime, notes: Notes) -> Settlement:
    return Settlement(e.Failed(**running.event_fields(at), notes=notes, error=error), Ack())


def superseded_note(running: AttemptContext, reason: str, at: datetime) -> e.StaleCompletionIgnored:
    """The note that an attempt writes when it no longer owns its job (design D7)."""
    return e.StaleCompletionIgnored(
        job=running.job,
        context=running.context,
        at=at,
        tries=running.tries,
        lost_attempt=running.attempt.id,
        reason=reason,
    )


def _retry(
    error: JobError, delay: timedelta, running: AttemptContext, at: datetime, notes: Notes
) -> Settlement:
    delay = min(max(delay, timedelta()), MAX_RETRY_DELAY)
    scheduled = e.RetryScheduled(
        **running.event_fields(at), notes=notes, error=error, next_attempt_at=at + delay
    )
    return Settlement(scheduled, Nak(delay))


def _mark_dead(error: JobError, running: AttemptContext, at: datetime, notes: Notes) -> Settlement:
    if not running.dead_letters:
        return _fail(error, running, at, notes)
    dead = e.Dead(**running.event_fields(at), notes=notes, error=error)
    return Settlement(dead, Term(f"dead after {running.tries} tries"))


def _shutdown(running: AttemptContext, at: datetime) -> JobError:
    return JobError(
        type=Interruption.SHUTDOWN,
        message="the worker shut down before the job was done",
        tries=running.tries,
        at=at,
    )


def _snooze(
    reason: JobError, until: datetime, running: AttemptContext, at: datetime, notes: Notes
) -> Settlement:
    """Put the job back until then, or until its deadline, when the next delivery expires it."""
    if running.snoozes >= running.policy.max_snoozes:
        return _fail(_snoozes_exhausted(reason, running.snoozes), running, at, notes)
    if running.is_last_delivery:
        return _mark_dead(_snoozed_on_last_delivery(reason), running, at, notes)
    due = min(until, at + MAX_RETRY_DELAY, running.deadline or until)
    return _requeue(reason, running, at, notes, max(due - at, timedelta()))


def _snoozed_on_last_delivery(reason: JobError) -> JobError:
    message = (
        "the handler snoozed the job on its last delivery: raise the queue's delivery_limit, or "
        f"declare none, and retry the job. It was snoozed because: {reason.message}"
    )
    return replace(reason, type=Interruption.DELIVERIES_EXHAUSTED, message=message)


def _snoozes_exhausted(reason: JobError, snoozes: int) -> JobError:
    message = (
        f"the handler snoozed the job again after {snoozes} snoozes: let it snooze for longer or "
        "fail earlier, or raise the queue's max_snoozes, and retry the job. It was snoozed "
        f"because: {reason.message}"
    )
    return replace(reason, type=Interruption.SNOOZES_EXHAUSTED, message=message)


def _requeue(
    error: JobError,
    running: AttemptContext,
    at: datetime,
    notes: Notes,
    delay: timedelta = timedelta(),
) -> Settlement:
    """Retry without counting the try, because the job itself did not fail (design D8)."""
    fields = running.event_fields(at)
    fields["tries"] = running.tries - 1
    due = at + delay if delay else None
    retry = e.RetryScheduled(**fields, notes=notes, error=error, next_attempt_at=due)
    return Settlement(retry, Nak(delay))
