"""One log line for the end of each attempt: what happened, why, and what comes next.

A job that failed for good or died is an `error`, with its traceback. A try that failed and will be
repeated is a `warning`, with its traceback at level `debug`. Everything else is `info`, except an
outcome that the event log refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model import events as e
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.settlement import Nak

if TYPE_CHECKING:
    from trellis_jobs.jetstream.log.event_log import Lost
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.settlement import Answer, Settlement
    from trellis_jobs.worker.running_job import RunningJob

log = logging.getLogger(__name__)


_NO_TRY_USED: Final = frozenset({Interruption.SHUTDOWN, Interruption.OTHER_CONTRACT})
_FAILURES: Final = (e.RetryScheduled, e.Failed, e.Dead)


def log_outcome(running: RunningJob, settlement: Settlement) -> None:
    if type(settlement.event) is e.Completed and not log.isEnabledFor(logging.INFO):
        return  # Most jobs end like this, so nothing is formatted when it would not be logged.
    _log(running, settlement.event, *_description(running, settlement))


def log_too_late(running: RunningJob, settlement: Settlement, lost: Lost) -> None:
    values = running.attempt_context.tries, lost.reason
    _log(running, settlement.event, logging.WARNING, "ended try %s too late: %s", *values)


def _log(
    running: RunningJob, event: e.Event | None, level: int, text: str, *values: object
) -> None:
    if log.isEnabledFor(level):
        job, template = running.attempt_context.job, f"job %s of %s/%s {text}%s"
        error = _failure(event)
        traced = error if _shows_traceback(level) else None
        log.log(
            level,
            template,
            *(job.job_id, job.service, job.job_type, *values, _traceback_text(running, traced)),
            exc_info=_exception(running, traced),
            extra=_fields(running, event, error),
        )
    running.raised = None  # The exception's frames would keep the attempt in memory.


def _description(
    running: RunningJob, settlement: Settlement
) -> tuple[int, str, *tuple[object, ...]]:
    """Returns the log level, the message after the name of the job, and the message's values."""
    event, tries, most = (
        settlement.event,
        running.attempt_context.tries,
        running.attempt_context.max_tries,
    )
    match event:
        case None:
            return logging.INFO, "was stopped, because it had ended elsewhere"
        case e.Completed():
            return logging.INFO, "completed on try %s", tries
        case e.RetryScheduled(is_snooze=True):
            return logging.INFO, "snoozed until %s (%s of %s): %s", *_snooze(running, event)
        case e.RetryScheduled(error=error) if error.type in _NO_TRY_USED:
            return logging.INFO, "goes back to its queue: %s", error.message
        case e.RetryScheduled(error=error):
            text = "failed on try %s of %s, next try %s: %s"
            return logging.WARNING, text, tries, most, _when(settlement.answer), _error_text(error)
        case e.Failed(error=error):
            text = "failed on try %s, with no further try: %s"
            return logging.ERROR, text, tries, _error_text(error)
        case e.Dead(error=error):
            return logging.ERROR, "died after %s of %s tries: %s", tries, most, _error_text(error)
        case _:
            return logging.WARNING, "lost try %s: another attempt has the job", tries


def _snooze(running: RunningJob, event: e.RetryScheduled) -> tuple[object, ...]:
    """Returns until when the job is snoozed, which snooze of how many this is, and why."""
    context, until = running.attempt_context, event.next_attempt_at or event.at
    ends = until.isoformat(timespec="seconds").replace("+00:00", "Z")
    if context.deadline is not None and until >= context.deadline:
        ends = f"its deadline, {ends}, when it expires"
    return ends, context.snoozes + 1, context.policy.max_snoozes, event.error.message


def _failure(event: e.Event | None) -> JobError | None:
    return event.error if isinstance(event, _FAILURES) and not event.is_snooze else None


def _when(answer: Answer) -> str:
    delay = answer.delay if isinstance(answer, Nak) else None
    return f"in {format_duration(delay)}" if delay else "at once"


def _error_text(error: JobError) -> str:
    return f"{error.type}: {error.message}"


def _shows_traceback(level: int) -> bool:
    return level >= logging.ERROR or log.isEnabledFor(logging.DEBUG)


def _exception(running: RunningJob, error: JobError | None) -> BaseException | None:
    """Returns the exception itself, for tools that group errors by it.

    Returns None for a job with secrets: the exception may quote them, and its frames hold them.
    """
    has_traceback = error is not None and error.traceback is not None
    return running.raised if has_traceback and not running.has_secrets else None


def _traceback_text(running: RunningJob, error: JobError | None) -> str:
    """Returns the stored traceback, which does not contain secrets."""
    if error is None or error.traceback is None or not running.has_secrets:
        return ""
    return f"\n{error.traceback.rstrip()}"


def _fields(running: RunningJob, event: e.Event | None, error: JobError | None) -> dict[str, Any]:
    job = running.attempt_context.job
    return {
        "service": job.service,
        "queue": job.job_type,
        "job": job.job_id,
        "tries": running.attempt_context.tries,
        "event": None if event is None else event.kind.value,
        "error": None if error is None else _error_text(error),
    }
