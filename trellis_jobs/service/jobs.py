"""The declaration of a service: a class with one attribute per job type."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar, Unpack, cast, overload

from trellis_jobs.contract.declaration import (
    DEFAULT_ACK_WAIT,
    DEFAULT_DELAYS,
    DEFAULT_RETRY,
    JobType,
    ServiceContract,
)
from trellis_jobs.contract.key_policy import KeyConcurrency, QueueDepth, resolve
from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.identity import check_service_argument
from trellis_jobs.model.retry import RetryPolicy
from trellis_jobs.service.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trellis_jobs.contract.versions import Upgrades
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.service.runtime import Runtime

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

Duration = float | timedelta


class JobOptions(TypedDict, total=False):
    """Options of `job(...)`; durations are seconds or timedelta.

    `upgrades` has, for each earlier version, the function that converts its JSON to the next one.
    """

    name: str
    concurrency: int
    max_deliver: int
    backoff: Sequence[Duration]
    ack_wait: Duration
    delivery_limit: int | None
    timeout: Duration | None
    deadline: Duration | None
    progress: bool
    logs: bool
    dlq: bool
    permanent: Sequence[type[BaseException]]
    shared: bool
    key: KeyConcurrency | None
    queue: QueueDepth | None
    version: int
    upgrades: Upgrades
    docs: Json


class job(Generic[P, R]):  # noqa: N801 - reads as a keyword in a declaration
    """Declares a job type. On `service.jobs` the attribute is the queue."""

    @overload
    def __init__(
        self: job[P, R], payload: type[P], result: type[R], **options: Unpack[JobOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: job[P, None], payload: type[P], result: None = None, **options: Unpack[JobOptions]
    ) -> None: ...
    def __init__(
        self, payload: type[P], result: type[R] | None = None, **options: Unpack[JobOptions]
    ) -> None:
        self._payload = payload
        self._result = result if result is not None else cast("type[R]", type(None))
        self._options = options
        self._type: JobType[P, R] | None = None

    def declare(self, owner: str, attribute: str) -> JobType[P, R]:
        """Called by the Jobs class. Python 3.11 would wrap errors that __set_name__ raises."""
        try:
            _check_known(self._options)
            self._type = self._declare(_name(self._options, attribute))
        except (DeclarationError, TypeError, ValueError, OverflowError) as error:
            raise DeclarationError(f"{owner}.{attribute}: {error}") from error
        return self._type

    @overload
    def __get__(self, instance: None, owner: type[Jobs]) -> JobType[P, R]: ...
    @overload
    def __get__(self, instance: Jobs, owner: type[Jobs]) -> Queue[P, R]: ...
    def __get__(self, instance: Jobs | None, owner: type[Jobs]) -> JobType[P, R] | Queue[P, R]:
        if instance is None:
            return self.type
        return Queue(instance.runtime.bound(self.type), instance.runtime)

    @property
    def type(self) -> JobType[P, R]:
        if self._type is None:
            raise DeclarationError("job(...) must be an attribute of a Jobs class")
        return self._type

    def _declare(self, name: str) -> JobType[P, R]:
        o = self._options
        delays = _several("backoff", o.get("backoff", DEFAULT_DELAYS))
        ack_wait = _duration("ack_wait", o.get("ack_wait", DEFAULT_ACK_WAIT))
        return JobType(
            name=name,
            payload=PayloadType(self._payload),
            result=PayloadType(self._result),
            concurrency=o.get("concurrency", 1),
            retry=RetryPolicy(
                o.get("max_deliver", DEFAULT_RETRY.max_tries),
                tuple(_duration("backoff", delay) for delay in delays),
            ),
            ack_wait=ack_wait,
            delivery_limit=o.get("delivery_limit"),
            timeout=_optional("timeout", o.get("timeout")),
            deadline=_optional("deadline", o.get("deadline")),
            progress=o.get("progress", True),
            logs=o.get("logs", True),
            dead_letters=o.get("dlq", True),
            permanent=_several("permanent", o.get("permanent", ())),
            shared=o.get("shared", False),
            key_policy=resolve(o.get("key"), o.get("queue"), ack_wait),
            version=o.get("version", 1),
            upgrades=dict(o.get("upgrades", {})),
            docs=o.get("docs"),
        )


class Jobs:
    """Subclass it with a service name, `class HelpdeskJobs(Jobs, service="helpdesk")`."""

    contract: ClassVar[ServiceContract]

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def __init_subclass__(cls, *, service: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        queues: dict[str, JobType[Any, Any]] = {}
        for attribute, declared in _attributes(cls).items():
            if not isinstance(declared, job):
                continue
            queue: JobType[Any, Any] = declared.declare(cls.__name__, attribute)
            if queue.name in queues:
                raise DeclarationError(f"{cls.__name__} declares queue {queue.name!r} twice")
            queues[queue.name] = queue
        cls.contract = ServiceContract(check_service_argument(service), queues)


def _attributes(cls: type) -> dict[str, object]:
    """Returns the attributes of the class, including inherited ones."""
    return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}


def _check_known(options: JobOptions) -> None:
    for option in options:
        if option not in JobOptions.__optional_keys__:
            known = ", ".join(sorted(JobOptions.__optional_keys__))
            raise DeclarationError(f"unknown option {option!r}; the options are {known}")


def _name(options: JobOptions, attribute: str) -> str:
    name: object = options.get("name") or attribute.replace("_", "-")
    if not isinstance(name, str):
        raise DeclarationError(f"name must be text, is {name!r}")
    return name


def _several(option: str, values: Iterable[T]) -> tuple[T, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DeclarationError(f"{option} must be a list, is {values!r}")
    return tuple(values)


def _duration(option: str, value: Duration) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, bool):
            raise TypeError("a boolean is not a duration")
        return timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(
            f"{option} must be seconds or a timedelta, is {value!r} ({error})"
        ) from error


def _optional(option: str, value: Duration | None) -> timedelta | None:
    return None if value is None else _duration(option, value)
