"""The contract of a queue as a view, for forms and for people."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.views.creation import ContentTypeView, ContractView, KeyPolicyView
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.contract.schema_types import DigestOnlyType, SchemaType

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.contract.payload_types import PayloadType

_MILLISECOND: Final = timedelta(milliseconds=1)
# These have separate fields in the view, or a separate RPC.
_APART: Final = frozenset({"payload", "result", "keyConcurrency", "queue", "docs", "schedules"})


def contract_view(service: str, queue: JobType[Any, Any]) -> ContractView:
    entry = to_manifest(ServiceContract(service, {queue.name: queue}))["jobs"][queue.name]
    policy = queue.key_policy
    return ContractView(
        service=service,
        type=queue.name,
        payload=_content(queue.payload),
        payload_version=queue.version,
        result=_content(queue.result),
        options={name: value for name, value in entry.items() if name not in _APART},
        key=None if policy is None else _key(policy),
        docs=queue.docs,
    )


def _content(content: PayloadType[Any]) -> ContentTypeView:
    if isinstance(content, DigestOnlyType):
        return ContentTypeView(digest=content.digest, secrets=content.secrets)
    is_open = isinstance(content, SchemaType) and content.is_open
    schema = None if is_open else content.schema()
    return ContentTypeView(json_schema=schema, secrets=content.secrets)


def _key(policy: KeyPolicy) -> KeyPolicyView:
    return KeyPolicyView(
        template=policy.template.segments,
        max_active=policy.max_active,
        max_queued=policy.max_queued,
        when_full=policy.when_full,
        when_due=policy.when_due,
        stale_policy=policy.stale_policy,
        heartbeat_interval_ms=policy.heartbeat_interval // _MILLISECOND,
        heartbeat_ttl_ms=policy.heartbeat_ttl // _MILLISECOND,
    )
