"""The declaration of a service: a class with one attribute per job type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Unpack, cast, overload

from trellis_jobs.contract.declaration import (
    JobOptions,
    JobType,
    ServiceContract,
    declare_queue,
)
from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.contract.queue_options import read_arguments
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.identity import check_service_argument
from trellis_jobs.service.queue import Queue

if TYPE_CHECKING:
    from trellis_jobs.service.runtime import Runtime

P = TypeVar("P")
R = TypeVar("R")


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
            values = read_arguments(self._options)
            name = _text(values.pop("name", None) or attribute.replace("_", "-"))
            payload, result = PayloadType(self._payload), PayloadType(self._result)
            self._type = declare_queue(name, payload, result, values)
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


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise DeclarationError(f"name must be text, is {name!r}")
    return name
