"""Run a handler and turn whatever it does into an outcome: the worker's one `except` ladder."""

from __future__ import annotations

import asyncio
import signal
import threading
import traceback
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, assert_never

from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.handler_errors import Fail, Retry
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
    Succeeded,
    Superseded,
)
from trellis_jobs.worker.active_job import ActiveJob, AttemptFacts
from trellis_jobs.worker.current_job import CURRENT
from trellis_jobs.worker.running_job import RunningJob, StopReason
from trellis_jobs.worker.sync_handlers import RaisedInThread

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.environment import Environment
    from trellis_jobs.model.events import Begun
    from trellis_jobs.worker.handlers import Handler

_NOT_RENEWED: Final = "its slot of the key was not renewed in time"


async def invoke_handler(
    handler: Handler, running: RunningJob, environment: Environment
) -> Outcome:
    """Payload in, handler, result out. After this call there are only values."""
    if running.keyless is not None:
        witness = _Witness(running, environment.now())
        return Fatal(witness.error(Interruption.KEY_UNRESOLVABLE, running.keyless.reason))
    limit = handler.queue.timeout
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
        witness = _Witness(running, environment.now())
        if running.stop_reason is not None:
            return _stopped(running.stop_reason, witness)
        if isinstance(raised, asyncio.CancelledError) and _is_cancelled_from_outside():
            raise
        if timeout is not None and timeout.expired() and not isinstance(raised, Fail | Retry):
            running.time_out()
            return Retryable(witness.error(Interruption.TIMEOUT, _no_end_in(limit)))
        return _verdict(raised, handler, witness)


class _PayloadDoesNotFit(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Witness:
    """Describes what went wrong in this attempt."""

    running: RunningJob
    at: datetime

    def error(self, kind: str, message: str, raised: BaseException | None = None) -> JobError:
        scrub, self.running.raised = self.running.scrub, raised
        trace = None if raised is None else bounded(scrub(_traceback(raised)), TRACEBACK_LIMIT)
        return JobError(
            type=kind,
            message=bounded(scrub(message), MESSAGE_LIMIT),
            tries=self.running.terms.tries,
            at=self.at,
            traceback=trace,
        )


def _verdict(raised: BaseException, handler: Handler, witness: _Witness) -> Outcome:
    """What an exception means: the handler's own verdict, a misfit, or an error of some class."""
    match raised:
        case Retry():
            return Retryable(witness.error("Retry", _words(raised)), raised.after)
        case Fail():
            return Fatal(witness.error("Fail", _words(raised), raised))
        case _PayloadDoesNotFit():
            return Fatal(witness.error(Interruption.PAYLOAD_INVALID, str(raised)))
        case TypeMismatch():
            return Fatal(witness.error(Interruption.RESULT_INVALID, f"the result: {raised}"))
        case _:
            described = witness.error(type(raised).__name__, _words(raised), raised)
            permanent = isinstance(raised, handler.queue.permanent)
            return Fatal(described) if permanent else Retryable(described)


def _active_job(handler: Handler, running: RunningJob) -> ActiveJob[Any]:
    terms, delivery = running.terms, running.delivery
    facts = AttemptFacts(
        id=terms.job.job_id,
        context=terms.context,
        tries=terms.tries,
        max_tries=running.voice.head.status.max_tries,
        redelivered=delivery.delivered.number - 1,
        deadline=running.voice.head.status.deadline,
        key=None if running.slot is None else running.slot.key.display,
    )
    return ActiveJob(running, _payload(handler, delivery.begun), facts)


def _payload(handler: Handler, begun: Begun) -> Any:
    try:
        return handler.queue.read(begun.payload, begun.version)
    except TypeMismatch as misfit:
        raise _PayloadDoesNotFit(str(misfit)) from misfit


async def _call(
    handler: Handler,
    active: ActiveJob[Any],
    running: RunningJob,
    timeout: asyncio.Timeout | None,
) -> Any:
    if running.stop_reason is not None:
        raise asyncio.CancelledError
    running.enter_handler()
    # Reset at the end: timers that settling sets would keep the payload in memory.
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
    """Whether Python itself may have raised it, in the middle of the handler.

    While a service waits for signals, and in asyncio.run(), a Ctrl-C raises nothing: then a
    handler has raised it, and it ends this attempt like any other exception.
    """
    return (
        isinstance(raised, KeyboardInterrupt)
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        and threading.current_thread() is threading.main_thread()
    )


def _is_cancelled_from_outside() -> bool:
    """Libraries that cancel the task for a timeout of theirs may leave it so, but raise another."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _stopped(reason: StopReason, witness: _Witness) -> Outcome:
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
    match reason:
        case StopReason.ENDED:
            return JobAlreadyEnded()
        case StopReason.LOST:
            return Superseded()
        case StopReason.UNSAFE:
            # Said before the slot is left: by the log, too, only so many jobs of a key run.
            return Retryable(witness.error(Interruption.LEASE_OVER, _NOT_RENEWED), timedelta())
        case StopReason.SHUTDOWN:
            return Interrupted()
        case _:
            assert_never(reason)


def _no_end_in(limit: timedelta | None) -> str:
    return f"no end in {limit.total_seconds():g} s" if limit else "no end in time"


def _words(raised: BaseException) -> str:
    """What an exception says of itself; its own __str__ may fail, or have nothing to say."""
    try:
        return str(raised) or repr(raised)
    except Exception:
        return f"a {type(raised).__name__} that cannot be shown"


def _traceback(raised: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(raised))
    except Exception:
        return "a traceback that cannot be shown"
