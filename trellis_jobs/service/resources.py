"""Resources of handlers: opened before the first job of a worker, closed after its last."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from trellis_jobs.errors import DeclarationError, ResourceUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

T = TypeVar("T")

Values = dict["Resource[Any]", Any]

log = logging.getLogger(__name__)

# Seconds after which a resource that hangs no longer keeps the worker from stopping.
CLOSE_TIMEOUT: Final = 10.0
# Concurrent run_handler() calls open the resources once each, and each handler gets its own.
_CONTEXT_VALUES: Final[ContextVar[Values]] = ContextVar("trellis_jobs_resources")
_NO_VALUES: Final[Values] = {}


class Resource(Generic[T]):
    """What `@service.lifespan` returns. `get()` returns the opened value."""

    def __init__(self, name: str, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self.name = name
        self._make = make
        self._opened: list[Values] = []
        self._overrides: list[T] = []

    def __repr__(self) -> str:
        return f"Resource({self.name})"

    def get(self) -> T:
        """Returns the value, in any thread. Raises ResourceUnavailable if no workers run."""
        if self._overrides:
            return self._overrides[-1]
        here = _CONTEXT_VALUES.get(_NO_VALUES)
        if self in here:
            return cast("T", here[self])
        if self._opened:
            return cast("T", self._opened[-1][self])
        raise ResourceUnavailable(
            f"resource {self.name!r} is not open: it is opened when workers start "
            "(connect() with workers, inline(), run_handler()) and closed when they have stopped; "
            f"in a test, `with {self.name}.override(value):` gives it a value"
        )

    @contextmanager
    def override(self, value: T) -> Iterator[T]:
        """For tests: get() returns `value` within this block, and the resource is not opened."""
        self._overrides.append(value)
        try:
            yield value
        finally:
            self._overrides.pop()

    @property
    def is_overridden(self) -> bool:
        return bool(self._overrides)

    async def open(self, stack: AsyncExitStack, values: Values) -> None:
        """Enters the context manager; `stack` exits it. An error while closing is only logged."""
        manager = self._make()
        values[self] = await manager.__aenter__()
        self._opened.append(values)
        stack.push_async_callback(self._close, manager, values)

    async def _close(self, manager: AbstractAsyncContextManager[T], values: Values) -> None:
        self._opened = [each for each in self._opened if each is not values]
        limit = asyncio.timeout(CLOSE_TIMEOUT)
        try:
            async with limit:
                await manager.__aexit__(None, None, None)
        except Exception:
            if limit.expired():
                log.error(
                    "resource %r did not close within %g s; the worker stops without it",
                    self.name,
                    CLOSE_TIMEOUT,
                )
            else:
                log.exception("resource %r failed to close", self.name)


class Resources:
    """The resources of one service, in the order in which they were declared."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._declared: list[Resource[Any]] = []

    def declare(
        self, make: Callable[..., AbstractAsyncContextManager[T]], service: object
    ) -> Resource[T]:
        """`make` takes the service or no argument."""
        name = getattr(make, "__name__", repr(make))
        if _is_undecorated(make):
            raise DeclarationError(
                f"lifespan {name} must be an async context manager: put @asynccontextmanager "
                f"between @service.lifespan and `async def {name}`"
            )
        given = _arguments(name, make, service)
        resource = Resource[T](name, lambda: make(*given))
        self._declared.append(resource)
        return resource

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Values]:
        """Opens all in order, and closes them in reverse, even if one fails to open."""
        values: Values = {}
        async with AsyncExitStack() as stack:
            for resource in self._declared:
                if not resource.is_overridden:
                    await self._open(resource, stack, values)
            yield values

    async def _open(self, resource: Resource[Any], stack: AsyncExitStack, values: Values) -> None:
        try:
            await resource.open(stack, values)
        except Exception as error:
            log.exception("resource %r of service %r failed to open", resource.name, self._service)
            raise ResourceUnavailable(
                f"resource {resource.name!r} of service {self._service!r} failed to open, so its "
                f"workers were not started: {type(error).__name__}: {error}"
            ) from error


@contextmanager
def prefer_values(values: Values) -> Iterator[None]:
    """Makes get() return these values in this task and in tasks that it starts."""
    before = _CONTEXT_VALUES.set(values)
    try:
        yield
    finally:
        _CONTEXT_VALUES.reset(before)


def _is_undecorated(make: Callable[..., object]) -> bool:
    """Whether @asynccontextmanager is missing, or @contextmanager was used instead."""
    is_bare = inspect.isasyncgenfunction(make) or inspect.iscoroutinefunction(make)
    return is_bare or inspect.isgeneratorfunction(inspect.unwrap(make))


def _arguments(name: str, make: Callable[..., Any], service: object) -> tuple[object, ...]:
    signature = inspect.signature(make)
    for given in ((), (service,)):
        try:
            signature.bind(*given)
        except TypeError:
            continue
        return given
    raise DeclarationError(f"lifespan {name} must take the service or nothing, takes {signature}")
