"""`trellis-jobs jobs run-local`: run the handler of a bundled job in this process."""

from __future__ import annotations

import logging
import pdb
import time
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from jobs_admin.bundle.job_bundle import JobBundle
from jobs_admin.bundle.recorded_try import RecordedTry, TryOutcome, differences, recorded_try
from jobs_admin.cli.exit_codes import Exit, Missing, UsageError
from jobs_admin.cli.job_reader.bundle_reader import load_bundle
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text
from jobs_admin.cli.run import run_and_return
from jobs_admin.cli.secret_values import SecretValues, with_secrets
from jobs_admin.cli.service_loader import load_service
from jobs_admin.explain.event_words import progress_words
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import PayloadInvalid
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.states import JobState
from trellis_jobs.service.queue import Queue

if TYPE_CHECKING:
    from trellis_jobs.testing.handler_run import HandlerRun
    from trellis_jobs.testing.recording_job import RecordedCalls

# Loaded when a handler is run: it loads a server in memory, and the other commands need none.
_HANDLER_RUN: Final = "trellis_jobs.testing.handler_run"


def run_local(
    bundle: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE", help="A file of `jobs export`.", exists=True, dir_okay=False
        ),
    ],
    app: Annotated[
        str,
        typer.Option(
            "--app",
            help="The service whose handler is run, as in app:service.",
            metavar="MODULE:SERVICE",
        ),
    ],
    output: JsonOutput,
    number: Annotated[
        int | None,
        typer.Option(
            "--try", help="The number of the try. Default: the last one of the job.", metavar="N"
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--pdb", help="Enter the debugger where an exception was raised.")
    ] = False,
    secret: SecretValues = None,
) -> None:
    """Run the handler of a job on its recorded payload, in this process and without a server.

    Nothing is written to any log. What the handler itself does, it does: it uses the resources that
    the code of the service opens. Prints progress, log lines and the outcome, and how it differs
    from the recorded one. Exits with 0 if the handler returned, and with 1 if it raised.
    """
    exported = load_bundle(bundle)
    queue = _queue(app, exported)
    tries = _try_number(exported, number)
    payload = with_secrets(exported.job.payload, exported.job.run.secrets, secret)
    set_up_logs(LogFormat.TEXT, LogLevel.INFO)
    # The handler's lines are shown, and its outcome: those of the runtime would repeat it.
    logging.getLogger("trellis_jobs").setLevel(logging.CRITICAL)
    printer = _Printer(is_quiet=output.json)
    handled = run_and_return(_run(exported, queue, payload, tries, printer))
    recorded = recorded_try(exported.history, tries)
    if output.json:
        print_json(_document(handled, recorded, tries))
    else:
        _show(handled, recorded, tries)
    if debug and handled.raised is not None:
        pdb.post_mortem(handled.raised.__traceback__)
    raise typer.Exit(Exit.OK if handled.outcome.has_completed else Exit.REFUSED)


@dataclass(frozen=True, slots=True)
class _Handled:
    """`raised` is what the handler raised, if it did."""

    outcome: TryOutcome
    calls: RecordedCalls
    raised: BaseException | None


class _Printer:
    """Prints progress and log lines as the handler reports them."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._logs = self._progress = 0

    def print_new(self, calls: RecordedCalls) -> bool:
        """Called after each call of the handler. Returns False: the job is not cancelled."""
        if not self._is_quiet:
            for level, message in calls.logs[self._logs :]:
                print_text(f"  {level.value:<7}  {message}")
            for progress in calls.progress[self._progress :]:
                print_text(f"  progress {progress_words(progress)}")
        self._logs, self._progress = len(calls.logs), len(calls.progress)
        return False


def _queue(app: str, bundle: JobBundle) -> Queue[Any, Any]:
    service, job = load_service(app), bundle.address
    if service.name != job.service:
        raise UsageError(
            f"{app} is the service {service.name!r}, and the job is of {job.service!r}"
        )
    declared = service.contract.queues.get(job.job_type)
    if declared is None:
        known = ", ".join(sorted(service.contract.queues))
        raise Missing(f"service {service.name!r} has no queue {job.job_type!r}; queues: {known}")
    return Queue(declared, service.jobs.runtime)


def _try_number(bundle: JobBundle, number: int | None) -> int:
    job = bundle.job
    if number is None:
        return min(max(1, job.tries), job.max_tries)
    if not 1 <= number <= job.max_tries:
        raise typer.BadParameter(f"the job has {job.max_tries} tries", param_hint="--try")
    return number


async def _run(
    bundle: JobBundle, queue: Queue[Any, Any], payload: Json, tries: int, printer: _Printer
) -> _Handled:
    job = bundle.job
    run: HandlerRun[Any, Any] = import_module(_HANDLER_RUN).HandlerRun(
        queue,
        _decoded(queue, payload, job.run.version),
        version=job.run.version,
        tries=tries,
        max_tries=job.max_tries,
        snoozes=job.snoozes,
        job_id=job.id,
        cancel_when=printer.print_new,
    )
    began, raised = time.perf_counter(), None
    try:
        await run.run()
    except Exception as error:
        if not hasattr(run, "job"):
            raise
        raised = error
    duration = timedelta(seconds=time.perf_counter() - began)
    return _Handled(_outcome(run, raised, duration), run.recorded, raised)


def _decoded(queue: Queue[Any, Any], payload: Json, version: int) -> Any:
    """An older payload is converted by the queue itself."""
    declared = queue.type
    if version > declared.version:
        raise UsageError(
            f"the payload has version {version}, and this code takes up to {declared.version}: "
            "use the code that created the job"
        )
    if version < declared.version:
        return payload
    try:
        return declared.payload.from_json(payload)
    except TypeMismatch as mismatch:
        raise PayloadInvalid(declared.name, str(mismatch)) from mismatch


def _outcome(
    run: HandlerRun[Any, Any], raised: BaseException | None, duration: timedelta
) -> TryOutcome:
    job = run.job.job
    if job.state is JobState.COMPLETED:
        result = redacted(job.result, job.run.result_secrets)
        return TryOutcome(event=EventKind.COMPLETED, result=result, duration=duration)
    if job.run.snoozed_until is not None:
        error = ("snooze", job.run.snooze_reason or "")
        return TryOutcome(event=EventKind.RETRY, error=error, duration=duration)
    last = job.last_error
    error = (type(raised).__name__, str(raised)) if last is None else (last.type, last.message)
    return TryOutcome(event=job.state.value, error=error, duration=duration)


def _show(handled: _Handled, recorded: RecordedTry | None, tries: int) -> None:
    print_text(f"here      try {tries} {_words(handled.outcome)}")
    if recorded is None:
        print_text(f"recorded  the job has no try {tries}")
        return
    version = f", version {recorded.app_version}" if recorded.app_version else ""
    where = f" (worker {recorded.instance}{version})" if recorded.instance else ""
    print_text(f"recorded  try {tries} {_words(recorded.outcome)}{where}")
    found = differences(recorded.outcome, handled.outcome)
    for each in found:
        print_text(f"differs   {each}")
    if not found:
        print_text("same      the outcome is the recorded one")


def _words(outcome: TryOutcome) -> str:
    took = "" if outcome.duration is None else f" after {format_duration(outcome.duration)}"
    if outcome.event is None:
        return "did not end"
    if outcome.has_completed:
        return f"completed{took}: {orjson.dumps(outcome.result).decode()}"
    kind, message = outcome.error or ("", "")
    return f"failed{took}: {kind}: {message}"


def _document(handled: _Handled, recorded: RecordedTry | None, tries: int) -> dict[str, Any]:
    calls = handled.calls
    body: dict[str, Any] = {
        "try": tries,
        "outcome": _outcome_json(handled.outcome),
        "progress": [progress_words(each) for each in calls.progress],
        "logs": [{"level": level.value, "message": message} for level, message in calls.logs],
    }
    if recorded is not None:
        body["recorded"] = _outcome_json(recorded.outcome)
        body["differences"] = differences(recorded.outcome, handled.outcome)
    return body


def _outcome_json(outcome: TryOutcome) -> dict[str, Any]:
    body: dict[str, Any] = {"event": outcome.event}
    if outcome.error is not None:
        body["error"] = {"type": outcome.error[0], "message": outcome.error[1]}
    if outcome.has_completed:
        body["result"] = outcome.result
    if outcome.duration is not None:
        body["seconds"] = outcome.duration.total_seconds()
    return body
