"""Names that others have chosen for a service and its queues: the bindings of a deployment.

The original runtimes are given them (`namespace`, and for each queue `publishPrefix`, `workSubject`
and `consumerName`), and they may be generated and mean nothing. Here a bound queue goes by the last
token of its prefix everywhere, in subjects and in events, which must agree (design D21).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.documents import Token, first_problem
from trellis_jobs.contract.topology import WORK
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import check_service

if TYPE_CHECKING:
    from collections.abc import Mapping

# Built at the first use: most services have no bindings, and all of them load this module.
_READING: Final = ConfigDict(
    frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
)


class _QueueEntry(BaseModel):
    model_config = _READING

    publish_prefix: str
    work_subject: str
    consumer_name: Token


class _Document(BaseModel):
    """What else a binding says, its contract says too."""

    model_config = _READING

    namespace: Token
    work_stream: str = WORK
    keys_bucket: Token | None = None
    queues: Annotated[dict[str, _QueueEntry], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class QueueBinding:
    job_type: str
    consumer: str


@dataclass(frozen=True, slots=True)
class Bindings:
    """`queues` by the names that the service declares.

    `keys_bucket`: where runtimes that share its queues keep their keys, `JOBS_KEYS_<namespace>` for
    the original ones. Without it a limit for a key holds only among workers of this library.
    """

    namespace: str
    queues: Mapping[str, QueueBinding]
    keys_bucket: str | None = None

    @classmethod
    def from_json(cls, document: object) -> Bindings:
        """Raises DeclarationError, which names the place."""
        try:
            read = _Document.model_validate(document)
        except ValidationError as error:
            raise DeclarationError(f"these are no bindings: {first_problem(error)}") from None
        if read.work_stream != WORK:
            raise DeclarationError(f"workStream: work is only in {WORK}, not {read.work_stream!r}")
        queues = {name: _bound(name, each, read.namespace) for name, each in read.queues.items()}
        if len({each.job_type for each in queues.values()}) < len(queues):
            raise DeclarationError("queues: two of them have the same publishPrefix")
        if len({each.consumer for each in queues.values()}) < len(queues):
            raise DeclarationError("queues: two of them have the same consumerName")
        return cls(check_service(read.namespace), queues, read.keys_bucket)

    def bound(self, contract: ServiceContract) -> dict[str, JobType[Any, Any]]:
        """By the names they declare, the queues with the names that they have on the server."""
        if missing := sorted(contract.queues.keys() - self.queues.keys()):
            raise DeclarationError(
                f"service {contract.service!r}: nothing binds {', '.join(missing)}"
            )
        return {name: self._bind(name, queue) for name, queue in contract.queues.items()}

    def _bind(self, name: str, queue: JobType[Any, Any]) -> JobType[Any, Any]:
        bound, key_policy = self.queues[name], queue.key_policy
        if key_policy is not None and self.keys_bucket is not None:
            key_policy = replace(key_policy, bucket=self.keys_bucket)
        return replace(queue, name=bound.job_type, consumer=bound.consumer, key_policy=key_policy)

    def bind(self, contract: ServiceContract) -> ServiceContract:
        """The same queues, of the service as the server knows it."""
        named = {queue.name: queue for queue in self.bound(contract).values()}
        return ServiceContract(self.namespace, named)


def _bound(name: str, entry: _QueueEntry, namespace: str) -> QueueBinding:
    service, job_type = subjects.queue_of_prefix(entry.publish_prefix) or ("", "")
    if service != namespace:
        raise DeclarationError(f"queues.{name}.publishPrefix: it is not of namespace {namespace!r}")
    worked = subjects.queue_of(f"{entry.work_subject.removesuffix('.*')}.*")
    if worked != (service, job_type):
        raise DeclarationError(f"queues.{name}.workSubject: it is not that of publishPrefix")
    return QueueBinding(job_type, entry.consumer_name)
