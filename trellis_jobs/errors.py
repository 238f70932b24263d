"""The exceptions that this library raises on purpose.

    JobsError
    ├── DeclarationError            a service, a queue or a handler is declared wrongly
    │   └── InvalidToken            a name cannot be one token of a NATS subject
    ├── PayloadInvalid              a payload does not match its declared type
    ├── ResultInvalid               a stored result does not match its declared type
    ├── DeadlineInvalid             a deadline is neither a time nor a positive duration
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
    ├── JobEnded                    wait(): the job ended without a result
    │   └── JobFailed, JobDead, JobCancelled, JobExpired, JobSkipped, JobStale, JobDismissed
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

Retry and Fail, which handlers raise to choose how an attempt ends, are in `handler_errors.py`. The
errors about keys are in `key_errors.py`; NotEncrypted, CertificateRefused, StreamFull and
JetStreamNotReady are in `infrastructure_errors.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_CREDENTIALS = re.compile(r"^(\s*(?:[a-z][a-z0-9+.-]*:)?//)?.*@", re.DOTALL | re.IGNORECASE)
_MAX_SHOWN = 80


class JobsError(Exception):
    """Base of every error raised on purpose."""


def without_secrets(servers: str) -> str:
    """Server addresses without user, password or token, so that they can be shown.

    A password may contain any characters, but the last @ of an address precedes its host.
    """
    return ",".join(_CREDENTIALS.sub(r"\1", server) for server in servers.split(","))


class DeclarationError(JobsError):
    """A service, a queue or a handler is declared wrongly; the message names it."""


class InvalidToken(DeclarationError):
    def __init__(self, field: str, value: object, why: str = "") -> None:
        because = why or "use letters, digits, '-' and '_' only"
        super().__init__(f"{field} {_shown(value)} is not a valid subject token: {because}")
        self.field = field
        self.value = value


def _shown(value: object) -> str:
    shown = repr(value)
    quote = shown[-1] if isinstance(value, str) else ""
    return shown if len(shown) <= _MAX_SHOWN + 2 else f"{shown[:_MAX_SHOWN]}…{quote}"


class PayloadInvalid(JobsError):
    """`index` is the position of the payload in create_many(), from 0."""

    def __init__(self, queue: str, problem: str, index: int | None = None) -> None:
        super().__init__(f"{_which(index)} is not valid for queue {queue!r}: {problem}")
        self.queue = queue
        self.problem = problem
        self.index = index

    def of_item(self, index: int) -> PayloadInvalid:
        return PayloadInvalid(self.queue, self.problem, index)


def _which(index: int | None) -> str:
    return "the payload" if index is None else f"payload {index} of create_many (counted from 0)"


class DeadlineInvalid(JobsError, ValueError):
    def __init__(self, deadline: object, why: str) -> None:
        super().__init__(f"deadline {_shown(deadline)}: {why}")
        self.deadline = deadline


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


class JobNotFound(JobsError):
    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} does not exist: it was never created, or retention removed it"
        )
        self.job_id = job_id


class JobExists(JobsError):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} already exists")
        self.job_id = job_id


class JobIsOver(JobsError):
    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(
            f"job {job_id} is already {state}: only pending, active or retry jobs can be cancelled"
        )
        self.job_id = job_id
        self.state = state


class JobEnded(JobsError):
    """A job ended without a result. There is a subclass for each final state."""

    def __init__(self, job_id: str, state: str, why: str | None = None) -> None:
        super().__init__(f"job {job_id} is {state}" + (f": {why}" if why else ""))
        self.job_id = job_id
        self.state = state
        self.why = why


class JobFailed(JobEnded):
    """The handler failed with an error that is not retried."""


class JobDead(JobEnded):
    """The job used up all its tries."""


class JobCancelled(JobEnded):
    """The job was cancelled."""


class JobExpired(JobEnded):
    """The job's deadline passed."""


class JobSkipped(JobEnded):
    """The queue's policy replaced the job by a newer one before it ran."""


class JobStale(JobEnded):
    """The job's key lease expired while it ran."""


class JobDismissed(JobEnded):
    """An operator dismissed the dead job."""


class WaitTimeout(JobsError, TimeoutError):
    def __init__(self, job_id: str, seconds: float) -> None:
        super().__init__(
            f"job {job_id} did not end within {seconds:g} s; the job itself is not affected"
        )
        self.job_id = job_id


class SomeNotCreated(JobsError):
    """create_many() created only some jobs; `created` and `failed` are keyed by position."""

    def __init__(self, created: Mapping[int, str], failed: Mapping[int, JobsError]) -> None:
        first = next(iter(failed.values()))
        super().__init__(
            f"{len(failed)} of {len(created) + len(failed)} jobs were not created; first: {first}"
        )
        self.created = created
        self.failed = failed


class NotConfirmed(JobsError):
    """`seconds` is the time waited, or None if the connection was closed."""

    def __init__(self, what: str, seconds: float | None, job_id: str | None = None) -> None:
        super().__init__(
            f"the connection was closed before the server confirmed {what}; "
            "a write may have been stored: check before you repeat it"
            if seconds is None
            else f"the server did not confirm {what} within {round(seconds, 2):g} s; "
            "a write may have been stored: check before you repeat it"
        )
        self.job_id = job_id


class NoAnswer(NotConfirmed):
    """The admin runtime did not answer a read request, which is safe to repeat."""

    def __init__(self, what: str, seconds: float, *, is_connected: bool) -> None:
        JobsError.__init__(
            self,
            f"an admin runtime is running, but did not answer {what} within {seconds:g} s"
            if is_connected
            else f"the connection to the server was lost before {what} was answered: check that "
            "the server is running",
        )
        self.job_id = None


class InfrastructureError(JobsError):
    """The server, or its streams and permissions, are not as required."""


class Unreachable(InfrastructureError):
    def __init__(self, servers: str, reason: str) -> None:
        super().__init__(f"no NATS server answers at {without_secrets(servers)}: {reason}")
        self.servers = without_secrets(servers)


class CredentialsRefused(InfrastructureError):
    def __init__(self, servers: str) -> None:
        super().__init__(
            f"the NATS server at {without_secrets(servers)} refuses these credentials: "
            "check user and password in the URL, or the credentials file"
        )
        self.servers = without_secrets(servers)


class CredentialsUnusable(InfrastructureError):
    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file} cannot be used to connect: {why}")
        self.file = file


class InfrastructureMissing(InfrastructureError):
    _problem: ClassVar = "is missing"

    def __init__(self, what: str, remedy: str = "") -> None:
        default = "create it with `trellis-jobs infra apply` and credentials that may provision"
        super().__init__(f"{what} {self._problem}: {remedy or default}")
        self.what = what
        self.remedy = remedy


class InfrastructureMismatch(InfrastructureError):
    def __init__(self, what: str, differences: Sequence[str]) -> None:
        listed = "".join(f"\n  - {difference}" for difference in differences)
        super().__init__(
            f"{what} exists with settings that cannot be changed while jobs may be running:{listed}"
        )
        self.what = what
        self.differences = tuple(differences)


class ServiceMissing(InfrastructureError):
    def __init__(self, subject: str) -> None:
        super().__init__(
            f"no admin runtime answers {subject}: start one with `trellis-jobs admin serve`"
        )
        self.subject = subject


class NotPermitted(InfrastructureError):
    def __init__(self, subject: str, words: str = "") -> None:
        super().__init__(words or f"these credentials may not publish to {subject}")
        self.subject = subject


class InboxNotPermitted(NotPermitted):
    """Replies cannot be received, so no request can succeed."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            subject,
            f"these credentials may not subscribe to {subject}, where replies arrive: allow "
            "that, or set the prefix that is allowed (ConnectOptions.inbox_prefix, --inbox-prefix)",
        )


class RequestRefused(InfrastructureError):
    """JetStream refused a request; `code` is its error code."""

    def __init__(self, what: str, code: int, description: str) -> None:
        super().__init__(f"{what}: {description} ({code})")
        self.code = code
        self.description = description


class ServerTooOld(InfrastructureError):
    def __init__(self, feature: str, needs: str, has: str) -> None:
        super().__init__(f"{feature} needs nats-server {needs} or newer, this server is {has}")
        self.feature = feature
