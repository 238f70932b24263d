"""What the end of an attempt means: the event to append, and the answer to JetStream."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from trellis_jobs.model import events as e
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, repr_with

if TYPE_CHECKING:
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.concurrency import Concurrency
    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.retry import RetryPolicy

# Beyond it a date may not exist, and a handler that asks for more has mistaken the unit.
MAX_RETRY_DELAY: Final = timedelta(days=366)


class Succeeded(Value, frozen=True):
    """`secrets`: the places in the result that are not shown."""

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
    """The job ended under its handler (cancelled, expired), and the handler stopped."""


class Superseded(Value, frozen=True):
    """Another attempt took the job over while this one's handler ran."""


class Interrupted(Value, frozen=True):
    """The host is shutting down; the job itself did nothing wrong."""


class ContractMismatch(Value, frozen=True):
    """This worker's contract rejects the job, and that of another worker accepts it."""

    error: JobError
    after: timedelta


Outcome: TypeAlias = (
    Succeeded | Retryable | Fatal | JobAlreadyEnded | Superseded | Interrupted | ContractMismatch
)


class Ack(Value, frozen=True):
    pass


class Nak(Value, frozen=True):
    delay: timedelta = timedelta()


class Term(Value, frozen=True):
    """Never deliver this again: nothing we know could make it work."""

    reason: str


class NoAck(Value, frozen=True):
    """No answer at all: the message belongs to somebody else now."""


Answer: TypeAlias = Ack | Nak | Term | NoAck


class Settlement(Value, frozen=True):
    event: e.Event | None
    answer: Answer


class AttemptContext(Value, frozen=True):
    """The attempt that is about to end."""

    job: JobAddress
    context: JobContext
    attempt: Attempt
    tries: int
    max_tries: int
    policy: RetryPolicy
    dead_letters: bool = True
    is_last_delivery: bool = False
    concurrency: Concurrency | None = None

    def event_fields(self, at: datetime) -> e.AttemptFields:
        """What every event of this attempt says."""
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
    """Decide the end of one attempt.

    The event is appended first, the answer to JetStream comes last: dying in between means a
    redelivery that finds the job over and acknowledges it, so nothing is lost or done twice.
    """
    match outcome:
        case Succeeded(result, secrets):
            done = e.Completed(
                **running.event_fields(at), notes=notes, result=result, secrets=secrets
            )
            return Settlement(done, Ack())
        case Retryable(error, after):
            if running.tries >= running.max_tries or running.is_last_delivery:
                return _bury(error, running, at, notes)
            planned = running.policy.delay_after(running.tries, random)
            return _retry(error, planned if after is None else after, running, at, notes)
        case Fatal(error):
            return _fail(error, running, at, notes)
        case Interrupted():
            return _give_back(_shutdown(running, at), running, at, notes)
        case ContractMismatch(error, after):
            end = _fail if running.is_last_delivery else partial(_give_back, delay=after)
            return end(error, running, at, notes)
        case JobAlreadyEnded() | Superseded():
            return _leave(outcome, running, at)
        case _:
            assert_never(outcome)


def _leave(
    outcome: JobAlreadyEnded | Superseded, running: AttemptContext, at: datetime
) -> Settlement:
    if isinstance(outcome, JobAlreadyEnded):
        return Settlement(None, Ack())
    return Settlement(superseded_note(running, "it was superseded while it ran", at), NoAck())


def _fail(error: JobError, running: AttemptContext, at: datetime, notes: Notes) -> Settlement:
    return Settlement(e.Failed(**running.event_fields(at), notes=notes, error=error), Ack())


def superseded_note(running: AttemptContext, reason: str, at: datetime) -> e.StaleCompletionIgnored:
    """The note an attempt leaves that no longer owns its job (design D7)."""
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


def _bury(error: JobError, running: AttemptContext, at: datetime, notes: Notes) -> Settlement:
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


def _give_back(
    error: JobError,
    running: AttemptContext,
    at: datetime,
    notes: Notes,
    delay: timedelta = timedelta(),
) -> Settlement:
    """With the try (design D8): the job did nothing wrong."""
    said = running.event_fields(at)
    said["tries"] = running.tries - 1
    due = at + delay if delay else None
    retry = e.RetryScheduled(**said, notes=notes, error=error, next_attempt_at=due)
    return Settlement(retry, Nak(delay))
