"""Exit codes that scripts can rely on.

0  done, or stopped by a signal as asked
1  refused, or failed: declared wrongly, not legal now, or the server side is not as it must be
2  the command line itself is wrong
3  there is no such job, key or queue
4  no server answers, or no admin runtime, or not in time: worth trying again later
130  Ctrl-C, where the command had not come to its end
"""

from __future__ import annotations

import sys
from enum import IntEnum
from traceback import format_exception
from types import TracebackType
from typing import Final

from jobs_admin.api.errors import NO_METHOD, Invalid, NotFound, ProjectionMissing
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
    f"if an admin runtime runs that has another file, say which with --db or {PATH_VARIABLE}"
)


class Misused(JobsError):
    """The command line itself is wrong; the message says what to say instead."""


class Missing(JobsError):
    """There is no such thing; the message says what there is."""


class Exit(IntEnum):
    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    INTERRUPTED = 130


def exit_of(error: JobsError) -> Exit:
    match error:
        case Misused():
            return Exit.USAGE
        case NotFound() | JobNotFound() | Missing():
            return Exit.NOT_FOUND
        case Unreachable() | ServiceMissing() | NotConfirmed() | WaitTimeout():
            return Exit.UNREACHABLE
        case _:
            return Exit.REFUSED


def complain(error: JobsError) -> Exit:
    """Say what is wrong, without a traceback: the messages of our errors lead to the culprit."""
    told, remedy = str(error), remedy_of(error)
    if remedy is not None:
        told += f" {remedy}" if told.endswith("?") else f"; {remedy}"
    print(harmless(f"error: {told}"), file=sys.stderr, flush=True)
    return exit_of(error)


def as_sentence(error: JobsError) -> str:
    """For a message that goes on after the error."""
    text = str(error)
    return text if text.endswith("?") else f"{text}."


def show_defect(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """For `sys.excepthook`: the traceback of an error of ours, whose message may be from a job."""
    print(harmless("".join(format_exception(kind, error, at))), file=sys.stderr, end="", flush=True)


def remedy_of(error: JobsError) -> str | None:
    """What to do about it with this command line; the message itself is for programs too."""
    match error:
        case Unreachable():
            return (
                "--nats, NATS_URL or --context says where one is, `trellis-jobs dev` runs one "
                "to try things on"
            )
        case ServiceMissing():
            return (
                "`trellis-jobs doctor` shows which server was asked. Without an admin runtime, "
                "`jobs get`, `events`, `logs`, `watch`, `tail` and `queues list` still work"
            )
        case ProjectionMissing():
            return ANOTHER_FILE
        case Invalid() if str(error).startswith(NO_METHOD):
            return "the admin runtime is older than this command: upgrade it"
        case NoAnswer():
            return (
                "narrow the question with --service, --type or --since, or wait longer with "
                "--timeout; `trellis-jobs doctor` tells how the admin runtime is"
            )
        case NotPermitted():
            return "--creds or --context gives others, `trellis-jobs doctor` lists what these may"
        case _:
            return None
