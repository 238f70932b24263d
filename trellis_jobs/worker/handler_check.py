"""What can be a handler: a function of one argument, async or not, that returns its result."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from trellis_jobs.errors import DeclarationError


def check_handler(queue: str, payload: object, handler: Any) -> None:
    """Raises DeclarationError for what would fail at every job."""
    problem = _problem(handler)
    if problem is not None:
        shown = getattr(payload, "__name__", repr(payload))
        name = getattr(handler, "__qualname__", repr(handler))
        raise DeclarationError(
            f"queue {queue!r}: handler {name} {problem}. Write it like this: "
            f"`async def {getattr(handler, '__name__', 'handler')}(job: ActiveJob[{shown}])`, "
            "with the result as its return value"
        )


def _problem(handler: Any) -> str | None:
    if isinstance(handler, type):
        return "is a class, not a function"
    if not callable(handler):
        return "cannot be called"
    called = _function_of(handler)
    if inspect.isasyncgenfunction(called) or inspect.isgeneratorfunction(called):
        return "is a generator: its `yield` gives no result"
    try:
        # Not of what a decorator has wrapped: that may get more arguments from the decorator.
        signature = inspect.signature(handler, follow_wrapped=False)
    except (TypeError, ValueError):
        return None  # A builtin or an extension, of which Python does not know.
    try:
        signature.bind(None)
    except TypeError:
        return f"has the parameters {signature}, and is called with one argument, the job"
    return None


def _function_of(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler if inspect.isroutine(handler) else type(handler).__call__
