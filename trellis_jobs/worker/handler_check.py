"""Checks that a handler is a function, async or not, that takes the job and returns the result."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from trellis_jobs.errors import DeclarationError


def check_handler(queue: str, payload: object, handler: Any) -> None:
    """Raises DeclarationError for a handler that would fail at every job."""
    problem = _problem(handler)
    if problem is not None:
        shown = getattr(payload, "__name__", repr(payload))
        name = getattr(handler, "__qualname__", repr(handler))
        raise DeclarationError(
            f"queue {queue!r}: handler {name} {problem}. Write "
            f"`async def {getattr(handler, '__name__', 'handler')}(job: ActiveJob[{shown}])`, "
            "and return the result"
        )


def _problem(handler: Any) -> str | None:
    if isinstance(handler, type):
        return "is a class, not a function"
    if not callable(handler):
        return "cannot be called"
    called = _function_of(handler)
    if inspect.isasyncgenfunction(called) or inspect.isgeneratorfunction(called):
        return "is a generator, which cannot return a result with `yield`"
    try:
        # A decorator may pass more arguments to the function that it wraps.
        signature = inspect.signature(handler, follow_wrapped=False)
    except (TypeError, ValueError):
        return None  # Builtins and extension functions may have no signature.
    try:
        signature.bind(None)
    except TypeError:
        return f"has the parameters {signature}, but is called with one argument, the job"
    return None


def _function_of(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler if inspect.isroutine(handler) else type(handler).__call__
