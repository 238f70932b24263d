"""Middleware: functions that wrap every handler of a service."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from trellis_jobs.errors import DeclarationError
from trellis_jobs.worker.active_job import ActiveJob


class CallNext(Protocol):
    """What a middleware awaits to run the next middleware or, at the end, the handler."""

    def __call__(self, job: ActiveJob[Any], /) -> Awaitable[Any]: ...


Middleware = Callable[[ActiveJob[Any], CallNext], Awaitable[Any]]


def check_middleware(middleware: Middleware) -> None:
    """Reports a mistake at the declaration, not when the first job runs."""
    name = getattr(middleware, "__qualname__", repr(middleware))
    if not any(map(inspect.iscoroutinefunction, (middleware, type(middleware).__call__))):
        raise DeclarationError(f"middleware {name} must be `async def {name}(job, call_next)`")
    try:
        inspect.signature(middleware).bind(None, None)
    except TypeError as error:
        raise DeclarationError(
            f"middleware {name} must take two arguments, (job, call_next): {error}"
        ) from None


def wrapped(call: CallNext, middleware: Sequence[Middleware]) -> CallNext:
    """Returns `call` inside all middleware. The first middleware is the outermost."""
    for each in reversed(middleware):
        call = functools.partial(_enter, each, call)
    return call


def _enter(middleware: Middleware, call_next: CallNext, job: ActiveJob[Any]) -> Awaitable[Any]:
    return middleware(job, call_next)
