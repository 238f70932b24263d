"""The bindings of a deployment: names assigned to a service and its queues.

The original runtimes receive them (`namespace`, and for each queue `publishPrefix`, `workSubject`
and `consumerName`); they may be generated names. Subjects and events must agree on a queue's name
(design D21), so here a bound queue is named by the last token of its prefix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.documents import Token, first_error
from trellis_jobs.contract.topology import WORK
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import check_service

if TYPE_CHECKING:
    from collections.abc import Mapping

# Built at the first use, because every service loads this module and few have bindings.
_CONFIG: Final = ConfigDict(
    frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
)


class _QueueEntry(BaseModel):
    model_config = _CONFIG

    publish_prefix: str
    work_subject: str
    consumer_name: Token


class _Document(BaseModel):
    """The fields that are used. The others repeat what the contract contains."""

    model_config = _CONFIG

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
    """`queues` has the names that the service declares as keys.

    `keys_bucket` is the bucket of the runtimes that share the queues, `JOBS_KEYS_<namespace>` for
    the original ones. Without it, key limits apply only among workers of this library.
    """

    namespace: str
    queues: Mapping[str, QueueBinding]
    keys_bucket: str | None = None

    @classmethod
    def from_json(cls, document: object) -> Bindings:
        """Parse a JSON document. Raises DeclarationError, which names the invalid field."""
        try:
            read = _Document.model_validate(document)
        except ValidationError as error:
            raise DeclarationError(f"not valid bindings: {first_error(error)}") from None
        if read.work_stream != WORK:
            raise DeclarationError(f"workStream: must be {WORK}, is {read.work_stream!r}")
        queues = {name: _bound(name, each, read.namespace) for name, each in read.queues.items()}
        if len({each.job_type for each in queues.values()}) < len(queues):
            raise DeclarationError("queues: two queues have the same publishPrefix")
        if len({each.consumer for each in queues.values()}) < len(queues):
            raise DeclarationError("queues: two queues have the same consumerName")
        return cls(check_service(read.namespace), queues, read.keys_bucket)

    def bound(self, contract: ServiceContract) -> dict[str, JobType[Any, Any]]:
        """The queues under their declared names, with the names they have on the server."""
        if missing := sorted(contract.queues.keys() - self.queues.keys()):
            raise DeclarationError(
                f"service {contract.service!r}: the bindings lack {', '.join(missing)}"
            )
        return {name: self._bind(name, queue) for name, queue in contract.queues.items()}

    def _bind(self, name: str, queue: JobType[Any, Any]) -> JobType[Any, Any]:
        bound, key_policy = self.queues[name], queue.key_policy
        if key_policy is not None and self.keys_bucket is not None:
            key_policy = replace(key_policy, bucket=self.keys_bucket)
        return replace(queue, name=bound.job_type, consumer=bound.consumer, key_policy=key_policy)

    def bind(self, contract: ServiceContract) -> ServiceContract:
        """The contract with the names that the service and its queues have on the server."""
        named = {queue.name: queue for queue in self.bound(contract).values()}
        return ServiceContract(self.namespace, named)


def _bound(name: str, entry: _QueueEntry, namespace: str) -> QueueBinding:
    service, job_type = subjects.queue_of_prefix(entry.publish_prefix) or ("", "")
    if service != namespace:
        raise DeclarationError(
            f"queues.{name}.publishPrefix: must belong to namespace {namespace!r}"
        )
    worked = subjects.queue_of(f"{entry.work_subject.removesuffix('.*')}.*")
    if worked != (service, job_type):
        raise DeclarationError(
            f"queues.{name}.workSubject: must belong to the same queue as publishPrefix"
        )
    return QueueBinding(job_type, entry.consumer_name)
