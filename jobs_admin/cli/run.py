"""Run one coroutine as a whole program, and leave when it is done, whoever else is not."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobs_admin.cli.exit_codes import Exit, complain
from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_LAST_MOMENTS: Final = 1.0


def run(
    program: Coroutine[Any, Any, Exit | None], *, when_interrupted: Exit = Exit.INTERRUPTED
) -> None:
    """`when_interrupted`: what Ctrl-C means, unless the program hears it itself."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        code = Exit.OK
        try:
            code = runner.run(program) or Exit.OK
        except JobsError as error:
            code = complain(error)
        except KeyboardInterrupt:
            code = when_interrupted
        except BrokenPipeError:
            _write_to_nobody()
        _leave_soon(code)
    sys.exit(code)


def outcome_of(program: Coroutine[Any, Any, T]) -> T:
    """For a command that goes on afterwards; one that is refused ends here."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        try:
            return runner.run(program)
        except JobsError as error:
            sys.exit(complain(error))


def collect_rarely() -> None:
    """For a process that reads the log: its many small objects die young, and not in circles.

    Looking for circles after every 700 of them, as Python does, was a fifth of the work.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _write_to_nobody() -> None:
    """Whoever read what we print has had enough: Python would complain of that at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's is faster, and does not exist on Windows."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _leave_soon(code: Exit) -> None:
    """Python waits for tasks and threads before it ends.

    A handler that ignored its interruption would keep it waiting for ever; its job went back to
    the queue long ago. What runs at exit, once all threads have ended, is not cut short.
    """
    patience = threading.Timer(_LAST_MOMENTS, os._exit, (code,))
    patience.daemon = True
    patience.start()
    atexit.register(patience.cancel)
