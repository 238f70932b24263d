"""The RPCs with which operators create jobs: the contract, recent payloads, and the job."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import Fault, Invalid, NotFound
from jobs_admin.api.errors import CONTRACT_ISSUE, ContractMissing, Issue, JobInvalid, QueueMissing
from jobs_admin.api.views.creation import CreatedJobView, CreateReply, OneContract, RecentPayloads
from jobs_admin.creation.contract_view import contract_view
from jobs_admin.creation.job_request import requested
from jobs_admin.queues.contract import published_contract
from jobs_admin.queues.declared_secrets import declared_secrets
from jobs_admin.queues.read import known_queue
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.reads.recent_payloads import recent_payloads
from jobs_admin.rpc.router import answered_by
from trellis_jobs.errors import DeclarationError, JobsError
from trellis_jobs.model.creator import Creator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jobs_admin.api import inputs
    from jobs_admin.api.views.creation import PayloadTemplate
    from jobs_admin.creation.job_creator import JobCreator
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

# Room for the other fields of a reply, in bytes.
_ENVELOPE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationMethods:
    connection: Connection
    readers: Readers
    progress: LogProgress
    creator: JobCreator
    max_reply_bytes: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.GET_CONTRACT, self.get_contract),
                answered_by(Rpcs.RECENT_PAYLOADS, self.list_payloads),
                answered_by(Rpcs.CREATE, self.create),
            ]
        )

    async def get_contract(self, request: inputs.ContractInput, _: Caller) -> OneContract:
        with _refusals():
            found = await known_queue(self.connection, request.service, request.type)
            queue = published_contract(found)
        return OneContract(contract=contract_view(request.service, queue))

    async def list_payloads(self, request: inputs.RecentPayloadsInput, _: Caller) -> RecentPayloads:
        await wait_for_position(self.progress, request.min_seq)
        found = await recent_payloads(
            self.readers,
            request.service,
            request.type,
            secrets=await declared_secrets(self.connection, request.service, request.type),
            limit=request.limit,
        )
        return RecentPayloads(payloads=tuple(_fitting(found, self.max_reply_bytes())))

    async def create(self, request: inputs.CreateInput, caller: Caller) -> CreateReply:
        with _refusals():
            found = await known_queue(self.connection, request.service, request.type)
            queue = published_contract(found)
            wanted = requested(request, _creator(request, caller), self.creator.environment.now())
            if request.dry_run:
                preview = await self.creator.preview(queue, wanted, found.consumer)
                return CreateReply(preview=preview)
            created = await self.creator.create(queue, wanted)
        if created.seq is not None:
            log.info("job %s was created in %s by %s", created.id, found.name, wanted.creator.by)
            await self._until_projected(created)
        return CreateReply(created=created)

    async def _until_projected(self, created: CreatedJobView) -> None:
        """The job exists, so the reply says so even if the projection is behind (design D17)."""
        with suppress(Fault, JobsError):
            await wait_for_position(self.progress, created.seq or 0)


def _creator(request: inputs.CreateInput, caller: Caller) -> Creator:
    by = request.by or caller.session or "operator"
    return Creator(by, request.reason, caller.request_id)


def _fitting(found: Sequence[PayloadTemplate], max_bytes: int) -> Iterator[PayloadTemplate]:
    """As many as fit into a reply; a large payload is left out, and later ones are not."""
    left = max_bytes - _ENVELOPE_BYTES
    for each in found:
        size = len(each.encode()) + 1
        if size <= left:
            left -= size
            yield each


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns errors about queues, contracts and jobs into refusals with a type."""
    try:
        yield
    except QueueMissing as missing:
        raise NotFound(missing.name, resource="Queue", why=missing.why) from None
    except JobInvalid as invalid:
        raise Invalid(str(invalid), list(invalid.issues)) from None
    except (ContractMissing, DeclarationError) as unusable:
        raise Invalid(str(unusable), [Issue(CONTRACT_ISSUE, str(unusable))]) from None
