"""trellis-jobs: event-sourced background jobs on NATS JetStream."""

from __future__ import annotations

from trellis_jobs.contract.bindings import Bindings
from trellis_jobs.contract.key_policy import KeyConcurrency, QueueDepth
from trellis_jobs.contract.schedules import Cron, Every
from trellis_jobs.contract.secret_fields import Secret
from trellis_jobs.contract.versions import upgraded_elsewhere
from trellis_jobs.errors import (
    CalledInEventLoop,
    CertificateRefused,
    CredentialsRefused,
    CredentialsUnusable,
    DeadlineInvalid,
    DeclarationError,
    Fail,
    InboxNotPermitted,
    InfrastructureError,
    InfrastructureMismatch,
    InfrastructureMissing,
    JobCancelled,
    JobDead,
    JobDismissed,
    JobEnded,
    JobExists,
    JobExpired,
    JobFailed,
    JobIsOver,
    JobNotFound,
    JobNotWaiting,
    JobOptionInvalid,
    JobsError,
    JobSkipped,
    JobStale,
    KeyBusy,
    KeyContention,
    KeyStateMalformed,
    KeyUnresolvable,
    NoAnswer,
    NoCurrentJob,
    NotAdmitted,
    NotConfirmed,
    NotConnected,
    NotEncrypted,
    NotPermitted,
    PayloadInvalid,
    PayloadTooLarge,
    QueueFull,
    ResourceUnavailable,
    ResultInvalid,
    Retry,
    RunAtInvalid,
    ScheduleDeclared,
    ScheduleNotFound,
    ScheduleRefused,
    Snooze,
    SomeNotCreated,
    StreamFull,
    Unreachable,
    WaitTimeout,
    WrongEventLoop,
)
from trellis_jobs.jetstream.client.connect_options import ConnectOptions, TlsFiles
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.job import Job
from trellis_jobs.model.states import JobState
from trellis_jobs.producer.job_ref import JobRef
from trellis_jobs.producer.job_snapshot import JobSnapshot
from trellis_jobs.producer.try_options import TryOptions
from trellis_jobs.service.jobs import Jobs, job
from trellis_jobs.service.outcomes import Accepted, Coalesced, Rejected, Replaced
from trellis_jobs.service.queue import Queue
from trellis_jobs.service.resources import Resource
from trellis_jobs.service.service import Service
from trellis_jobs.service.sync.client import SyncClient
from trellis_jobs.service.sync.job_ref import SyncJobRef
from trellis_jobs.service.sync.queue import SyncQueue
from trellis_jobs.service.worker_selection import Workers
from trellis_jobs.worker.active_job import ActiveJob, KeyLease
from trellis_jobs.worker.current_job import current_job
from trellis_jobs.worker.middleware import CallNext

__all__ = [
    "Accepted",
    "ActiveJob",
    "Bindings",
    "CallNext",
    "CalledInEventLoop",
    "CertificateRefused",
    "Coalesced",
    "ConnectOptions",
    "CredentialsRefused",
    "CredentialsUnusable",
    "Cron",
    "DeadlineInvalid",
    "DeclarationError",
    "Every",
    "Fail",
    "InboxNotPermitted",
    "InfrastructureError",
    "InfrastructureMismatch",
    "InfrastructureMissing",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobDead",
    "JobDismissed",
    "JobEnded",
    "JobExists",
    "JobExpired",
    "JobFailed",
    "JobIsOver",
    "JobNotFound",
    "JobNotWaiting",
    "JobOptionInvalid",
    "JobRef",
    "JobSkipped",
    "JobSnapshot",
    "JobStale",
    "JobState",
    "Jobs",
    "JobsError",
    "KeyBusy",
    "KeyConcurrency",
    "KeyContention",
    "KeyLease",
    "KeyStateMalformed",
    "KeyUnresolvable",
    "NoAnswer",
    "NoCurrentJob",
    "NotAdmitted",
    "NotConfirmed",
    "NotConnected",
    "NotEncrypted",
    "NotPermitted",
    "PayloadInvalid",
    "PayloadTooLarge",
    "Queue",
    "QueueDepth",
    "QueueFull",
    "Rejected",
    "Replaced",
    "Resource",
    "ResourceUnavailable",
    "ResultInvalid",
    "Retry",
    "RunAtInvalid",
    "ScheduleDeclared",
    "ScheduleNotFound",
    "ScheduleRefused",
    "Secret",
    "Service",
    "Snooze",
    "SomeNotCreated",
    "StreamFull",
    "SyncClient",
    "SyncJobRef",
    "SyncQueue",
    "TlsFiles",
    "TryOptions",
    "Unreachable",
    "WaitTimeout",
    "Workers",
    "WrongEventLoop",
    "current_job",
    "job",
    "upgraded_elsewhere",
]
