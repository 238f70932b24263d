"""Creates jobs in the name of operators, and says beforehand what would happen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from jobs_admin.api.errors import JobInvalid
from jobs_admin.api.views.creation import (
    CreatedJobView,
    CreationOutcome,
    CreationPreview,
    IssueView,
)
from jobs_admin.creation.job_request import JobRequest, checked
from jobs_admin.creation.preview import PlannedJob, preview_of
from jobs_admin.queues.contract import has_payload_schema
from trellis_jobs.errors import JobExists, NotAdmitted, PayloadTooLarge
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
from trellis_jobs.model.events import Created
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.producer.full_keys import FullKeys
from trellis_jobs.producer.submission import Producer
from trellis_jobs.telemetry import Telemetry

if TYPE_CHECKING:
    from jobs_admin.api.errors import Issue
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.producer.submission import CreatedJob, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCreator:
    """`full_keys` are what earlier requests observed of leases; an outage makes them useless."""

    events: EventLog
    alarms: Alarms
    bucket: KeyBucket
    full_keys: FullKeys
    environment: Environment
    telemetry: Telemetry

    @classmethod
    def at(
        cls, connection: Connection, events: EventLog, alarms: Alarms, environment: Environment
    ) -> Self:
        full_keys = FullKeys(environment.monotonic)
        connection.on_reconnect(full_keys.reset)
        return cls(
            events=events,
            alarms=alarms,
            bucket=KeyBucket(connection, environment.now),
            full_keys=full_keys,
            environment=environment,
            telemetry=Telemetry(),
        )

    async def create(self, queue: JobType[Any, Any], request: JobRequest) -> CreatedJobView:
        """Raises JobInvalid. A job that its key does not admit, or that exists, is an outcome."""
        producer = self._producer(queue, request.service)
        prepared = checked(producer, queue, request)
        try:
            created = await producer.create(prepared)
        except JobExists as existing:
            return _existing(JobAddress(request.service, queue.name, existing.job_id))
        except NotAdmitted as refusal:
            return _refused(request.service, queue, refusal)
        except PayloadTooLarge as error:
            raise JobInvalid.at("/payload", str(error)) from error
        return _accepted(prepared, created)

    async def preview(
        self,
        queue: JobType[Any, Any],
        request: JobRequest,
        consumer: QueueConsumer | None,
    ) -> CreationPreview:
        """Writes nothing. Problems of the job are in the preview."""
        producer = self._producer(queue, request.service)
        try:
            prepared = checked(producer, queue, request)
        except JobInvalid as invalid:
            return CreationPreview(valid=False, issues=tuple(map(_issue, invalid.issues)))
        exists = False
        if request.job_id is not None:
            job = JobAddress(request.service, queue.name, request.job_id)
            exists = await self.events.head(job) is not None
        event, admission = producer.first_event(prepared), None
        if prepared.key is not None and isinstance(event, Created) and not exists:
            keys = self._keys(queue, request.service)[queue.name]
            admission = await keys.preview(prepared.key, event)
        planned = PlannedJob(
            queue=queue, event=event, admission=admission, consumer=consumer, exists=exists
        )
        return preview_of(planned)

    def _producer(self, queue: JobType[Any, Any], service: str) -> Producer:
        keys = self._keys(queue, service)
        producer = Producer(
            service, self.events, keys, self.telemetry, self.environment, self.alarms
        )
        producer.full_keys = self.full_keys
        return producer

    def _keys(self, queue: JobType[Any, Any], service: str) -> dict[str, KeyCoordinator]:
        if queue.key_policy is None:
            return {}
        now = self.environment.now
        keys = KeyCoordinator(service, queue, queue.key_policy, self.bucket, self.events, now)
        return {queue.name: keys}


def _accepted(prepared: Request, created: CreatedJob) -> CreatedJobView:
    job = created.address
    more: dict[str, Any] = {}
    if prepared.key is not None:
        more["key"] = prepared.key.display
    if created.replaced is not None:
        more["replaced_job_id"] = created.replaced
    return CreatedJobView(
        outcome=CreationOutcome.REPLACED if created.replaced else CreationOutcome.ACCEPTED,
        service=job.service,
        type=job.job_type,
        id=job.job_id,
        seq=created.sequence,
        payload_checked=has_payload_schema(prepared.queue),
        **more,
    )


def _existing(job: JobAddress) -> CreatedJobView:
    return CreatedJobView(
        outcome=CreationOutcome.EXISTS, service=job.service, type=job.job_type, id=job.job_id
    )


def _refused(service: str, queue: JobType[Any, Any], refusal: NotAdmitted) -> CreatedJobView:
    if refusal.coalesced:
        return CreatedJobView(
            outcome=CreationOutcome.COALESCED,
            service=service,
            type=queue.name,
            id=refusal.existing_job_id,
            key=refusal.key,
        )
    return CreatedJobView(
        outcome=CreationOutcome.REJECTED,
        service=service,
        type=queue.name,
        **asdict(refusal.full),
    )


def _issue(issue: Issue) -> IssueView:
    return IssueView(path=issue.path, message=issue.message)
