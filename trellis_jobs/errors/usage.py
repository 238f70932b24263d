"""Errors in the code of a service: a declaration, a payload or a call is wrong."""

from __future__ import annotations

from trellis_jobs.errors.base import JobsError

_MAX_SHOWN = 80


class DeclarationError(JobsError):
    """A service, a queue or a handler is declared wrongly; the message names it."""


class InvalidToken(DeclarationError):
    def __init__(self, field: str, value: object, why: str = "") -> None:
        because = why or "use letters, digits, '-' and '_' only"
        super().__init__(f"{field} {_shown(value)} is not a valid subject token: {because}")
        self.field = field
        self.value = value


class PayloadInvalid(JobsError):
    """`index` is the position of the payload in create_many(), from 0."""

    def __init__(self, queue: str, problem: str, index: int | None = None) -> None:
        super().__init__(f"{_which(index)} is not valid for queue {queue!r}: {problem}")
        self.queue = queue
        self.problem = problem
        self.index = index

    def of_item(self, index: int) -> PayloadInvalid:
        return PayloadInvalid(self.queue, self.problem, index)


class DeadlineInvalid(JobsError, ValueError):
    def __init__(self, deadline: object, why: str) -> None:
        super().__init__(f"deadline {_shown(deadline)}: {why}")
        self.deadline = deadline


class RunAtInvalid(JobsError, ValueError):
    """`delay` or `run_at` of a job is not a time."""

    def __init__(self, given: object, why: str) -> None:
        super().__init__(f"the time to run, {_shown(given)}: {why}")
        self.given = given


class JobOptionInvalid(JobsError, ValueError):
    """An option of create(), such as `max_tries`, is not valid for the queue."""

    def __init__(self, queue: str, problem: str) -> None:
        super().__init__(f"queue {queue!r}: {problem}")
        self.queue = queue
        self.problem = problem


class ResultInvalid(JobsError):
    def __init__(self, job_id: str, problem: str, *, redacted: bool = False) -> None:
        remedy = "; its secrets were redacted: read it with get(reveal=True)"
        super().__init__(
            f"the result of job {job_id} does not match its declared type: {problem}"
            + (remedy if redacted else "")
        )
        self.job_id = job_id
        self.problem = problem


class KeyUnresolvable(JobsError):
    """`index` is the position of the payload in create_many(), from 0."""

    def __init__(self, pointer: str, index: int | None = None) -> None:
        super().__init__(
            f"cannot compute the job's key: {pointer!r} does not point to a string, a finite "
            f"number or a boolean in {_which(index)}"
        )
        self.pointer = pointer
        self.index = index

    def of_item(self, index: int) -> KeyUnresolvable:
        return KeyUnresolvable(self.pointer, index)


class PayloadTooLarge(JobsError):
    """An event exceeds the server's max_payload, because of its payload or its result."""

    def __init__(self, subject: str, size: int, limit: int) -> None:
        is_result = subject.endswith(".completed")
        what, remedy = (
            ("result", "return a reference to it")
            if is_result
            else ("payload", "put a reference to it into the payload")
        )
        super().__init__(
            f"the {what} is too large: the event would have {size:,} bytes, the server's "
            f"max_payload is {limit:,}; store the data elsewhere and {remedy} ({subject})"
        )
        self.size = size
        self.limit = limit


class NotConnected(JobsError):
    def __init__(self, service: str) -> None:
        super().__init__(
            f"service {service!r} is not connected: use `async with service.connect(url):`, or "
            "`service.connect_sync(url)` in code without an event loop"
        )
        self.service = service


class CalledInEventLoop(JobsError):
    """A sync client was called where it would block a running event loop."""


class NoCurrentJob(JobsError):
    """current_job() was called outside a handler."""


class ResourceUnavailable(JobsError):
    """A resource of a lifespan is not open, or failed to open; the message says which and why."""


class WrongEventLoop(JobsError, RuntimeError):
    def __init__(self) -> None:
        super().__init__(
            "this call runs on another event loop than the one on which the service is connected. "
            "From a thread, use `service.connect_sync()`, or run the call on the service's loop: "
            "`asyncio.run_coroutine_threadsafe(coroutine, loop).result()`. In a program with "
            "several loops, connect the service on the loop that uses it"
        )


def _which(index: int | None) -> str:
    return "the payload" if index is None else f"payload {index} of create_many (counted from 0)"


def _shown(value: object) -> str:
    shown = repr(value)
    quote = shown[-1] if isinstance(value, str) else ""
    return shown if len(shown) <= _MAX_SHOWN + 2 else f"{shown[:_MAX_SHOWN]}…{quote}"
