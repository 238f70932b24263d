"""The exceptions that this library raises on purpose.

    JobsError
    ├── DeclarationError            a service, a queue or a handler is declared wrongly
    │   └── InvalidToken            a name cannot be one token of a NATS subject
    ├── PayloadInvalid              a payload does not match its declared type
    ├── ResultInvalid               a stored result does not match its declared type
    ├── DeadlineInvalid             a deadline is neither a time nor a positive duration
    ├── RunAtInvalid                delay or run_at of a job is not a time
    ├── JobOptionInvalid            an option of create() is not valid for the queue
    ├── KeyUnresolvable             a payload has no usable value for the queue's key
    ├── PayloadTooLarge             an event would exceed the server's max_payload
    ├── NotConnected                the service is not connected
    ├── CalledInEventLoop           a sync client was called where it would block an event loop
    ├── WrongEventLoop              the service is connected on another event loop
    ├── NoCurrentJob                current_job() was called outside a handler
    ├── ResourceUnavailable         a resource of a lifespan is not open, or failed to open
    ├── JobNotFound                 the job does not exist
    ├── JobExists                   a job with this id already exists
    ├── JobIsOver                   the job has ended, so it cannot be cancelled
    ├── JobNotWaiting               the job runs or has ended, so it cannot be moved
    ├── JobEnded                    wait(): the job ended without a result
    │   └── JobFailed, JobDead, JobCancelled, JobExpired, JobSkipped, JobStale, JobDismissed
    ├── ScheduleNotFound            the schedule does not exist
    ├── ScheduleDeclared            the contract declares the schedule, so only a deploy changes it
    ├── ScheduleRefused             the change of a schedule was not made
    ├── WaitTimeout                 wait(): the job did not end in time
    ├── SomeNotCreated              create_many(): some of the jobs were not created
    ├── NotAdmitted                 a key has no room for a new job
    │   ├── KeyBusy                 all its slots are taken and no job may wait (or it is blocked)
    │   └── QueueFull               the maximum number of jobs already waits for it
    ├── KeyContention               other processes kept changing the key; try again
    ├── KeyStateMalformed           the stored state of a key cannot be read; it is not changed
    ├── NotConfirmed                the server did not confirm in time; a write may be stored
    │   └── NoAnswer                a read request to the admin runtime was not answered
    └── InfrastructureError         the server or its configuration is not as required
        ├── Unreachable             no server answers at this address
        ├── CredentialsRefused      the server rejects the credentials
        ├── CredentialsUnusable     a file with keys or certificates cannot be used
        ├── InfrastructureMissing   a stream, a consumer or JetStream itself is missing
        │   ├── StreamMissing       a stream does not exist
        │   └── JetStreamNotReady   JetStream does not answer, or has no leader yet
        ├── InfrastructureMismatch  it exists with settings that must not be changed
        ├── ServiceMissing          no admin runtime answers a request
        ├── NotPermitted            the credentials do not permit an operation
        │   └── InboxNotPermitted   the credentials do not permit receiving replies
        ├── RequestRefused          JetStream refused a request for another reason
        ├── ServerTooOld            the server lacks a required feature
        ├── NotEncrypted            a server offers no TLS where TLS is required
        ├── CertificateRefused      a server's certificate cannot be verified
        └── StreamFull              a stream has reached a limit and stores no more messages

Retry, Snooze and Fail, which handlers raise to choose how an attempt ends, are no errors of this
library.
"""

from __future__ import annotations

from trellis_jobs.errors.base import JobsError
from trellis_jobs.errors.connection import (
    CertificateRefused,
    CredentialsRefused,
    CredentialsUnusable,
    NoAnswer,
    NotConfirmed,
    NotEncrypted,
    Unreachable,
    without_secrets,
)
from trellis_jobs.errors.handlers import Fail, Retry, Snooze
from trellis_jobs.errors.infrastructure import (
    InboxNotPermitted,
    InfrastructureError,
    InfrastructureMismatch,
    InfrastructureMissing,
    JetStreamNotReady,
    NotPermitted,
    RequestRefused,
    ServerTooOld,
    ServiceMissing,
    StreamFull,
    StreamMissing,
)
from trellis_jobs.errors.jobs import (
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
    JobSkipped,
    JobStale,
    SomeNotCreated,
    WaitTimeout,
)
from trellis_jobs.errors.keys import (
    FullKey,
    KeyBusy,
    KeyContention,
    KeyStateMalformed,
    NotAdmitted,
    QueueFull,
)
from trellis_jobs.errors.schedules import ScheduleDeclared, ScheduleNotFound, ScheduleRefused
from trellis_jobs.errors.usage import (
    CalledInEventLoop,
    DeadlineInvalid,
    DeclarationError,
    InvalidToken,
    JobOptionInvalid,
    KeyUnresolvable,
    NoCurrentJob,
    NotConnected,
    PayloadInvalid,
    PayloadTooLarge,
    ResourceUnavailable,
    ResultInvalid,
    RunAtInvalid,
    WrongEventLoop,
)

__all__ = [
    "CalledInEventLoop",
    "CertificateRefused",
    "CredentialsRefused",
    "CredentialsUnusable",
    "DeadlineInvalid",
    "DeclarationError",
    "Fail",
    "FullKey",
    "InboxNotPermitted",
    "InfrastructureError",
    "InfrastructureMismatch",
    "InfrastructureMissing",
    "InvalidToken",
    "JetStreamNotReady",
    "JobCancelled",
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
    "JobSkipped",
    "JobStale",
    "JobsError",
    "KeyBusy",
    "KeyContention",
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
    "QueueFull",
    "RequestRefused",
    "ResourceUnavailable",
    "ResultInvalid",
    "Retry",
    "RunAtInvalid",
    "ScheduleDeclared",
    "ScheduleNotFound",
    "ScheduleRefused",
    "ServerTooOld",
    "ServiceMissing",
    "Snooze",
    "SomeNotCreated",
    "StreamFull",
    "StreamMissing",
    "Unreachable",
    "WaitTimeout",
    "WrongEventLoop",
    "without_secrets",
]
