"""One log line for the end of each attempt: what happened, why, and what comes next.

A job that failed for good or died is an `error`, with its traceback. A try that failed and will be
repeated is a `warning`, with its traceback at level `debug`. Everything else is `info`, except an
outcome that the log did not take.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.jetstream.log.event_log import Lost
from trellis_jobs.model import events as e
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.settlement import Nak

if TYPE_CHECKING:
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.job_status import Head
    from trellis_jobs.model.settlement import Answer, Settlement
    from trellis_jobs.worker.running_job import RunningJob

log = logging.getLogger(__name__)


_NO_TRY_USED: Final = frozenset({Interruption.SHUTDOWN, Interruption.OTHER_CONTRACT})
_FAILURES: Final = (e.RetryScheduled, e.Failed, e.Dead)


def log_outcome(running: RunningJob, settlement: Settlement, appended: Head | Lost) -> None:
    is_usual = isinstance(settlement.event, e.Completed) and not isinstance(appended, Lost)
    if is_usual and not log.isEnabledFor(logging.INFO):
        return  # How most jobs end: it costs nothing where it is not logged.
    level, text, *values = _told(running, settlement, appended)
    if log.isEnabledFor(level):
        event, job, template = settlement.event, running.terms.job, f"job %s of %s/%s {text}%s"
        error = event.error if isinstance(event, _FAILURES) else None
        traced = error if _shows_traceback(level) else None
        log.log(
            level,
            template,
            *(job.job_id, job.service, job.job_type, *values, _traceback_text(running, traced)),
            exc_info=_exception(running, traced),
            extra=_fields(running, event, error),
        )
    running.raised = None  # It would keep its frames, and with them the attempt, alive.


def _told(
    running: RunningJob, settlement: Settlement, appended: Head | Lost
) -> tuple[int, str, *tuple[object, ...]]:
    """The level, and the rest of the sentence with its values."""
    event, tries, most = settlement.event, running.terms.tries, running.terms.max_tries
    if isinstance(appended, Lost):
        return logging.WARNING, "ended try %s too late: %s", tries, appended.reason
    match event:
        case None:
            return logging.INFO, "was stopped, because it had ended elsewhere"
        case e.Completed():
            return logging.INFO, "completed on try %s", tries
        case e.RetryScheduled(error=error) if error.type in _NO_TRY_USED:
            return logging.INFO, "goes back to its queue: %s", error.message
        case e.RetryScheduled(error=error):
            text = "failed on try %s of %s, next try %s: %s"
            return logging.WARNING, text, tries, most, _when(settlement.answer), _words(error)
        case e.Failed(error=error):
            return logging.ERROR, "failed on try %s, with no further try: %s", tries, _words(error)
        case e.Dead(error=error):
            return logging.ERROR, "died after %s of %s tries: %s", tries, most, _words(error)
        case _:
            return logging.WARNING, "lost try %s: another attempt has the job", tries


def _when(answer: Answer) -> str:
    delay = answer.delay.total_seconds() if isinstance(answer, Nak) else 0
    return f"in {delay:.3g} s" if delay else "at once"


def _words(error: JobError) -> str:
    return f"{error.type}: {error.message}"


def _shows_traceback(level: int) -> bool:
    return level >= logging.ERROR or log.isEnabledFor(logging.DEBUG)


def _exception(running: RunningJob, error: JobError | None) -> BaseException | None:
    """The exception itself, for tools that group errors by it.

    Not of a job with secrets: the exception may quote them, and its frames hold them.
    """
    has_traceback = error is not None and error.traceback is not None
    return running.raised if has_traceback and not running.has_secrets else None


def _traceback_text(running: RunningJob, error: JobError | None) -> str:
    """The traceback as it is stored, without secrets."""
    if error is None or error.traceback is None or not running.has_secrets:
        return ""
    return f"\n{error.traceback.rstrip()}"


def _fields(running: RunningJob, event: e.Event | None, error: JobError | None) -> dict[str, Any]:
    job = running.terms.job
    return {
        "service": job.service,
        "queue": job.job_type,
        "job": job.job_id,
        "tries": running.terms.tries,
        "event": None if event is None else event.kind.value,
        "error": None if error is None else _words(error),
    }
