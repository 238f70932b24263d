"""Run a coroutine as the program, and exit when it is done even if other tasks are not."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobs_admin.cli.exit_codes import Exit, report_error
from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_EXIT_TIMEOUT: Final = 1.0


def run(
    program: Coroutine[Any, Any, Exit | None], *, when_interrupted: Exit = Exit.INTERRUPTED
) -> None:
    """`when_interrupted` is the exit code after Ctrl-C, unless the program handles SIGINT."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        code = Exit.OK
        try:
            code = runner.run(program) or Exit.OK
        except JobsError as error:
            code = report_error(error)
        except KeyboardInterrupt:
            code = when_interrupted
        except BrokenPipeError:
            _discard_stdout()
        _exit_soon(code)
    sys.exit(code)


def run_and_return(program: Coroutine[Any, Any, T]) -> T:
    """For a command that continues afterwards. A JobsError ends the process."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        try:
            return runner.run(program)
        except JobsError as error:
            sys.exit(report_error(error))


def collect_rarely() -> None:
    """Tune garbage collection for a process that reads the log.

    It creates many small, short-lived objects without reference cycles. With Python's default of
    one collection per 700 objects, collecting took a fifth of the CPU time.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _discard_stdout() -> None:
    """The reader closed the pipe; Python would print an error about that at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop is faster, and not available on Windows."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _exit_soon(code: Exit) -> None:
    """Force the exit after a short time, because Python waits for tasks and threads.

    A handler that ignores its interruption would block the exit for ever; its job has been put
    back on the queue by then. Exit handlers run after all threads have ended and are not cut short.
    """
    timer = threading.Timer(_EXIT_TIMEOUT, os._exit, (code,))
    timer.daemon = True
    timer.start()
    atexit.register(timer.cancel)
