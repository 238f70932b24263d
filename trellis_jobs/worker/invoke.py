"""Calls a handler and turns its result or exception into an outcome."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import traceback
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import Fail, Retry, Snooze
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.job_errors import (
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Interruption,
    JobError,
    bounded,
)
from trellis_jobs.model.settlement import (
    Fatal,
    Interrupted,
    JobAlreadyEnded,
    Outcome,
    Retryable,
    Snoozed,
    Succeeded,
    Superseded,
)
from trellis_jobs.worker.active_job import ActiveJob, AttemptFacts
from trellis_jobs.worker.current_job import CURRENT
from trellis_jobs.worker.running_job import RunningJob, StopReason
from trellis_jobs.worker.sync_handlers import RaisedInThread

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from trellis_jobs.environment import Environment
    from trellis_jobs.model.events import Begun
    from trellis_jobs.worker.handlers import Handler

_LEASE_EXPIRED: Final = "the lease of its slot of the key expired before it was renewed"
# A handler that raises one of these has chosen how its attempt ends, also after its timeout.
_CHOSEN_ENDS: Final = (Fail, Retry, Snooze)
_SELF_CANCELLED: Final = "the handler, or code that it called, cancelled its own task"
# Their frames are the same in every traceback, and say nothing about the handler.
_OWN_CODE: Final = tuple(
    str(Path(__file__).parents[1] / package) + os.sep for package in ("worker", "testing")
)


async def invoke_handler(
    handler: Handler, running: RunningJob, environment: Environment
) -> Outcome:
    """Reads the payload, calls the handler, checks the result. Never raises for a failed job."""
    if running.keyless is not None:
        errors = _ErrorBuilder(running, environment.now())
        return Fatal(errors.error(Interruption.KEY_UNRESOLVABLE, running.keyless.reason))
    limit = _time_limit(handler, running)
    timeout = None if limit is None else asyncio.timeout(limit.total_seconds())
    try:
        active = _active_job(handler, running)
        value = await _call(handler, active, running, timeout)
        result = handler.queue.result
        return Succeeded(result.to_json(value), result.secrets)
    except GeneratorExit:
        raise
    except BaseException as error:
        raised = error.raised if isinstance(error, RaisedInThread) else error
        if raised is error and _may_be_ctrl_c(raised):
            raise
        errors = _ErrorBuilder(running, environment.now())
        if running.stop_reason is not None:
            return _outcome_when_stopped(running.stop_reason, errors)
        if isinstance(raised, asyncio.CancelledError) and _is_cancelled_from_outside(running):
            raise
        if timeout is not None and timeout.expired() and not isinstance(raised, _CHOSEN_ENDS):
            running.time_out()
            return Retryable(errors.error(Interruption.TIMEOUT, _timeout_text(limit)))
        return _outcome_of(raised, handler, errors)


def _time_limit(handler: Handler, running: RunningJob) -> timedelta | None:
    """The time limit of the job, or else of its queue."""
    own = running.delivery.begun.try_limits
    return handler.queue.timeout if own is None or own.timeout is None else own.timeout


class _PayloadMismatch(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _ErrorBuilder:
    """Builds the errors of one attempt, without secrets."""

    running: RunningJob
    at: datetime

    def error(self, kind: str, message: str, raised: BaseException | None = None) -> JobError:
        if raised is not None:
            raised.__traceback__ = _without_own_frames(raised.__traceback__)
        scrub, self.running.raised = self.running.scrub, raised
        trace = None if raised is None else bounded(scrub(_traceback(raised)), TRACEBACK_LIMIT)
        return JobError(
            type=kind,
            message=bounded(scrub(message), MESSAGE_LIMIT),
            tries=self.running.attempt_context.tries,
            at=self.at,
            traceback=trace,
        )


def _outcome_of(raised: BaseException, handler: Handler, errors: _ErrorBuilder) -> Outcome:
    """Decides by the class of an exception whether the job is tried again."""
    match raised:
        case Retry():
            return Retryable(errors.error("Retry", _error_text(raised)), raised.after)
        case Snooze():
            reason = errors.error(Interruption.SNOOZE, _error_text(raised))
            return Snoozed(reason, raised.ends_at(errors.at))
        case Fail():
            return Fatal(errors.error("Fail", _error_text(raised), raised))
        case _PayloadMismatch():
            return Fatal(errors.error(Interruption.PAYLOAD_INVALID, str(raised)))
        case TypeMismatch():
            return Fatal(
                errors.error(
                    Interruption.RESULT_INVALID,
                    f"the result does not fit its declared type: {raised}",
                )
            )
        case _:
            _uncancel()  # The handler may have cancelled its task.
            described = errors.error(type(raised).__name__, _error_text(raised), raised)
            permanent = isinstance(raised, handler.queue.permanent)
            return Fatal(described) if permanent else Retryable(described)


def _active_job(handler: Handler, running: RunningJob) -> ActiveJob[Any]:
    attempt_context, delivery = running.attempt_context, running.delivery
    facts = AttemptFacts(
        id=attempt_context.job.job_id,
        context=attempt_context.context,
        tries=attempt_context.tries,
        max_tries=running.attempt_log.head.status.max_tries,
        redelivered=delivery.delivered.number - 1,
        deadline=running.attempt_log.head.status.deadline,
        key=None if running.slot is None else running.slot.key.display,
        scheduled_for=delivery.begun.run_at,
        schedule=delivery.begun.schedule,
        snoozes=attempt_context.snoozes,
    )
    return ActiveJob(running, _payload(handler, delivery.begun), facts)


def _payload(handler: Handler, begun: Begun) -> Any:
    try:
        return handler.queue.read(begun.payload, begun.version)
    except TypeMismatch as mismatch:
        raise _PayloadMismatch(str(mismatch)) from mismatch


async def _call(
    handler: Handler,
    active: ActiveJob[Any],
    running: RunningJob,
    timeout: asyncio.Timeout | None,
) -> Any:
    if running.stop_reason is not None:
        raise asyncio.CancelledError
    running.enter_handler()
    # Reset afterwards: timers that are set while settling would keep the payload in memory.
    before = CURRENT.set(active)
    try:
        if timeout is None:
            return await handler.call(active)
        async with timeout:
            return await handler.call(active)
    finally:
        CURRENT.reset(before)
        running.leave_handler()


def _may_be_ctrl_c(raised: BaseException) -> bool:
    """Whether Python may have raised it because of a Ctrl-C, and not the handler.

    While a service handles signals, and in asyncio.run(), a Ctrl-C raises no exception. Then the
    handler has raised it, and it fails this attempt like any other exception.
    """
    return (
        isinstance(raised, KeyboardInterrupt)
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    )


def _is_cancelled_from_outside(running: RunningJob) -> bool:
    """Whether this task was cancelled together with all tasks of the worker.

    If it is the only one, the handler has cancelled it. A library that cancels the task for its
    own timeout may leave the count above 0, but raises another exception than CancelledError.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0 and running.is_worker_cancelled


def _uncancel() -> None:
    """The rest of the attempt runs in this task."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


def _outcome_when_stopped(reason: StopReason, errors: _ErrorBuilder) -> Outcome:
    _uncancel()
    match reason:
        case StopReason.ENDED:
            return JobAlreadyEnded()
        case StopReason.LOST:
            return Superseded()
        case StopReason.UNSAFE:
            # Written before the slot is released, so that the log never shows more running jobs
            # of a key than its limit.
            return Retryable(errors.error(Interruption.LEASE_OVER, _LEASE_EXPIRED), timedelta())
        case StopReason.HUNG:
            return _hung(errors)
        case StopReason.SHUTDOWN:
            return Interrupted()
        case _:
            assert_never(reason)


def outcome_when_abandoned(running: RunningJob, environment: Environment) -> Outcome:
    """The outcome of an attempt whose handler still runs when its worker stops."""
    if running.stop_reason is StopReason.HUNG:
        return _hung(_ErrorBuilder(running, environment.now()))
    return Interrupted()


def _hung(errors: _ErrorBuilder) -> Retryable:
    return Retryable(errors.error(Interruption.VISIBILITY_TIMEOUT, _hung_text(errors)))


def _hung_text(errors: _ErrorBuilder) -> str:
    limit = errors.running.visibility
    within = f" within {format_duration(limit)}" if limit else ""
    return f"the handler did not call heartbeat(){within}"


def _timeout_text(limit: timedelta | None) -> str:
    return f"timed out after {format_duration(limit)}" if limit else "timed out"


def _error_text(raised: BaseException) -> str:
    """Returns the message of an exception, whose __str__ may be empty or may fail."""
    try:
        return str(raised) or (repr(raised) if raised.args else _default_text(raised))
    except Exception:
        return f"a {type(raised).__name__} whose __str__ fails"


def _default_text(raised: BaseException) -> str:
    return _SELF_CANCELLED if isinstance(raised, asyncio.CancelledError) else "no message"


def _without_own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Drops the frames between the worker and the handler; all are kept if there are no others."""
    rest = frames
    while rest is not None and rest.tb_frame.f_code.co_filename.startswith(_OWN_CODE):
        rest = rest.tb_next
    return rest or frames


def _traceback(raised: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(raised))
    except Exception:
        return "the traceback could not be formatted"
