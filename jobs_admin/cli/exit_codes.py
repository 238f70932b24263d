"""Exit codes that scripts can rely on.

0  success, or a long-running command was stopped by a signal
1  refused or failed: a wrong declaration, a wrong job state, or the server is not set up
2  usage error on the command line
3  the job, key, queue, schedule or worker does not exist
4  no server or no admin runtime answered in time: try again later
130  interrupted by Ctrl-C before the command had finished
"""

from __future__ import annotations

import sys
from enum import IntEnum
from traceback import format_exception
from types import TracebackType
from typing import Final

from jobs_admin.api.errors import NO_METHOD, Invalid, NotFound, ProjectionMissing, QueueMissing
from jobs_admin.cli.render.escape import harmless
from jobs_admin.config import PATH_VARIABLE
from trellis_jobs.errors import (
    JobNotFound,
    JobsError,
    NoAnswer,
    NotConfirmed,
    NotPermitted,
    ServiceMissing,
    Unreachable,
    WaitTimeout,
)

ANOTHER_FILE: Final = (
    f"If the admin runtime uses another file, name it with --db or {PATH_VARIABLE}."
)


class UsageError(JobsError):
    """The command line is wrong; the message says how to correct it."""


class Missing(JobsError):
    """The named object does not exist; the message lists what exists."""


class Exit(IntEnum):
    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    INTERRUPTED = 130


def exit_code_for(error: JobsError) -> Exit:
    match error:
        case UsageError():
            return Exit.USAGE
        case NotFound() | JobNotFound() | Missing() | QueueMissing():
            return Exit.NOT_FOUND
        case Unreachable() | ServiceMissing() | NotConfirmed() | WaitTimeout():
            return Exit.UNREACHABLE
        case _:
            return Exit.REFUSED


def report_error(error: JobsError) -> Exit:
    """Print the message and the remedy, without a traceback, and return the exit code."""
    remedy = remedy_for(error)
    message = str(error) if remedy is None else f"{as_sentence(error)} {remedy}"
    print(harmless(f"error: {message}"), file=sys.stderr, flush=True)
    return exit_code_for(error)


def as_sentence(error: JobsError) -> str:
    """The message with a full stop, so that another sentence can follow."""
    text = str(error)
    return text if text.endswith(("?", ".", "!")) else f"{text}."


def print_traceback(
    kind: type[BaseException], error: BaseException, at: TracebackType | None
) -> None:
    """For `sys.excepthook`: escapes the message, which may contain text from a job."""
    print(harmless("".join(format_exception(kind, error, at))), file=sys.stderr, end="", flush=True)


def remedy_for(error: JobsError) -> str | None:
    """What to do about it on the command line; the error's own message is for programs too."""
    match error:
        case Unreachable():
            return (
                "Name a server with --nats, NATS_URL or --context, or start one for development "
                "with `trellis-jobs dev`."
            )
        case ServiceMissing():
            return (
                "`trellis-jobs doctor` shows which server this command uses. Without an admin "
                "runtime, `jobs get`, `events`, `logs`, `watch`, `tail`, `queues` and `workers` "
                "still work, with permission to read the streams."
            )
        case ProjectionMissing():
            return ANOTHER_FILE
        case Invalid() if str(error).startswith(NO_METHOD):
            return "The admin runtime is older than this command: upgrade it."
        case NoAnswer():
            return (
                "Narrow it with --service, --type or --since, or raise --timeout; `trellis-jobs "
                "doctor` shows the health of the admin runtime."
            )
        case NotPermitted():
            return (
                "Choose other credentials with --creds or --context; `trellis-jobs doctor` lists "
                "what these permit."
            )
        case _:
            return None
