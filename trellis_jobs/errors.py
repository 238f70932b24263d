"""Everything this library raises on purpose.

    JobsError
    ├── DeclarationError            a service, a queue or a handler is declared wrongly
    │   └── InvalidToken            a name cannot be one token of a NATS subject
    ├── PayloadInvalid              a payload does not fit its declaration
    ├── ResultInvalid               a stored result does not fit its declaration
    ├── DeadlineInvalid             a deadline is not a moment, or not a positive duration
    ├── KeyUnresolvable             a payload has no value where the queue's key points
    ├── PayloadTooLarge             an event would exceed the server's max_payload
    ├── NotConnected                the service is not connected
    ├── CalledInEventLoop           a sync client was called where it would block an event loop
    ├── WrongEventLoop              the service is connected on another event loop
    ├── NoCurrentJob                current_job() was called outside a handler
    ├── ResourceUnavailable         a resource of a lifespan is not open, or failed to open
    ├── JobNotFound                 the log holds no such job
    ├── JobExists                   the log holds a job with this id already
    ├── JobIsOver                   the job has ended, so it cannot be cancelled
    ├── JobEnded                    wait(): the job ended without a result
    │   └── JobFailed, JobDead, JobCancelled, JobExpired, JobSkipped, JobStale, JobDismissed
    ├── WaitTimeout                 wait(): the job had not ended in time
    ├── SomeNotCreated              create_many(): part of the jobs is not in the log
    ├── NotAdmitted                 a key has no room for a new job
    │   ├── KeyBusy                 it runs, and nothing may wait (or its holder is stale)
    │   └── QueueFull               as many wait for it as may
    ├── KeyContention               compare-and-set on a key kept losing; try again
    ├── KeyStateMalformed           a key's state is not readable, and is left as it is
    ├── NotConfirmed                the server did not confirm in time; the event may be in the log
    │   └── NoAnswer                to a question of ours, which changes nothing
    └── InfrastructureError         the server side is not as it must be
        ├── Unreachable             no server answers at this address
        ├── CredentialsRefused      a server answers and does not let us in
        ├── CredentialsUnusable     a file of keys or certificates cannot be used
        ├── InfrastructureMissing   a stream or a consumer is not there
        │   └── JetStreamNotReady   JetStream does not answer, or has no leader yet
        ├── InfrastructureMismatch  it is there, but different in a way we must not change
        ├── ServiceMissing          nobody answers a request: the admin runtime is not running
        ├── NotPermitted            these credentials may not do that
        │   └── InboxNotPermitted   nor hear any answer
        ├── RequestRefused          JetStream refused a request for another reason
        ├── ServerTooOld            the server lacks a feature this call needs
        ├── NotEncrypted            a server offers no TLS where we must use it
        ├── CertificateRefused      a server's certificate cannot be verified
        └── StreamFull              a stream takes no more messages: a limit is reached

What a handler raises to choose how its attempt ends is in `handler_errors.py`: Retry, Fail.
The errors about keys are in `key_errors.py`, NotEncrypted, CertificateRefused, StreamFull and
JetStreamNotReady in `infrastructure_errors.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_CREDENTIALS = re.compile(r"^(\s*(?:[a-z][a-z0-9+.-]*:)?//)?.*@", re.DOTALL | re.IGNORECASE)
_LONGEST_SHOWN = 80


class JobsError(Exception):
    """Base of every error raised on purpose."""


def without_secrets(servers: str) -> str:
    """Server addresses as they may be shown: without user, password or token.

    Whatever a password contains, the last @ of an address is the one before its host.
    """
    return ",".join(_CREDENTIALS.sub(r"\1", server) for server in servers.split(","))


class DeclarationError(JobsError):
    """A service, a queue or a handler is declared wrongly; the message names the culprit."""


class InvalidToken(DeclarationError):
    def __init__(self, field: str, value: object, why: str = "") -> None:
        because = why or "use letters, digits, '-' and '_' only"
        super().__init__(f"{field} {_shown(value)} cannot be a subject token: {because}")
        self.field = field
        self.value = value


def _shown(value: object) -> str:
    shown = repr(value)
    quote = shown[-1] if isinstance(value, str) else ""
    return shown if len(shown) <= _LONGEST_SHOWN + 2 else f"{shown[:_LONGEST_SHOWN]}…{quote}"


class PayloadInvalid(JobsError):
    """`index`: which payload of a create_many(), counted from 0."""

    def __init__(self, queue: str, problem: str, index: int | None = None) -> None:
        super().__init__(f"{_which(index)} does not fit queue {queue!r}: {problem}")
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
        remedy = "; its secrets are replaced by a placeholder: read it with get(reveal=True)"
        super().__init__(
            f"the result of job {job_id} does not fit its declared type: {problem}"
            + (remedy if redacted else "")
        )
        self.job_id = job_id
        self.problem = problem


class KeyUnresolvable(JobsError):
    """`index`: in which payload of a create_many(), counted from 0."""

    def __init__(self, pointer: str, index: int | None = None) -> None:
        super().__init__(
            f"the key pointer {pointer!r} does not lead to a string, a finite number or a boolean "
            f"in {_which(index)}"
        )
        self.pointer = pointer
        self.index = index

    def of_item(self, index: int) -> KeyUnresolvable:
        return KeyUnresolvable(self.pointer, index)


class PayloadTooLarge(JobsError):
    def __init__(self, subject: str, size: int, limit: int) -> None:
        super().__init__(
            f"the event for {subject} has {size} bytes, the server takes at most {limit}: "
            "store large data elsewhere and put a reference into the payload"
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
            "this was called on another event loop than the one the service connected on. From a "
            "thread, use `service.connect_sync()`, or hand the call to the service's own loop: "
            "`asyncio.run_coroutine_threadsafe(coroutine, loop).result()`. In a program with "
            "several loops, connect the service on the loop that uses it"
        )


class JobNotFound(JobsError):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"the log holds no job {job_id}: it never was, or retention removed it")
        self.job_id = job_id


class JobExists(JobsError):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"the log holds a job {job_id} already")
        self.job_id = job_id


class JobIsOver(JobsError):
    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(
            f"job {job_id} is {state}: only a pending, retry or active job can be cancelled"
        )
        self.job_id = job_id
        self.state = state


class JobEnded(JobsError):
    """A job ended without a result; each such end has a class of its own."""

    def __init__(self, job_id: str, state: str, why: str | None = None) -> None:
        super().__init__(f"job {job_id} is {state}" + (f": {why}" if why else ""))
        self.job_id = job_id
        self.state = state
        self.why = why


class JobFailed(JobEnded):
    """The handler failed for good."""


class JobDead(JobEnded):
    """Every try was used up."""


class JobCancelled(JobEnded):
    """Somebody cancelled the job."""


class JobExpired(JobEnded):
    """The job's deadline passed."""


class JobSkipped(JobEnded):
    """Queue policy replaced the job before it ran."""


class JobStale(JobEnded):
    """The job lost its key lease while it ran."""


class JobDismissed(JobEnded):
    """An operator dismissed the dead job."""


class WaitTimeout(JobsError, TimeoutError):
    def __init__(self, job_id: str, seconds: float) -> None:
        super().__init__(f"job {job_id} had not ended after {seconds:g} s; it goes on")
        self.job_id = job_id


class SomeNotCreated(JobsError):
    """Part of a create_many() is in the log; `created` and `failed` are keyed by position."""

    def __init__(self, created: Mapping[int, str], failed: Mapping[int, JobsError]) -> None:
        first = next(iter(failed.values()))
        super().__init__(
            f"{len(failed)} of {len(created) + len(failed)} jobs were not created; first: {first}"
        )
        self.created = created
        self.failed = failed


class NotConfirmed(JobsError):
    """`seconds` is None when nobody waited: the connection is closed."""

    def __init__(self, what: str, seconds: float | None, job_id: str | None = None) -> None:
        super().__init__(
            f"the connection was closed before the server confirmed {what}; "
            "it may be in the log all the same"
            if seconds is None
            else f"the server did not confirm {what} within {round(seconds, 2):g} s; "
            "it may be in the log all the same"
        )
        self.job_id = job_id


class NoAnswer(NotConfirmed):
    """To a question that changes nothing, whoever was asked."""

    def __init__(self, what: str, seconds: float, *, is_connected: bool) -> None:
        JobsError.__init__(
            self,
            f"an admin runtime is running, and did not answer {what} within {seconds:g} s"
            if is_connected
            else f"the connection to the server broke before {what} was answered: is it running?",
        )
        self.job_id = None


class InfrastructureError(JobsError):
    """The server side is not as it must be."""


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
    def __init__(self, what: str, remedy: str = "") -> None:
        otherwise = "`trellis-jobs infra apply` makes it, with credentials that may provision"
        super().__init__(f"{what} is not there: {remedy or otherwise}")
        self.what = what
        self.remedy = remedy


class InfrastructureMismatch(InfrastructureError):
    def __init__(self, what: str, differences: Sequence[str]) -> None:
        listed = "".join(f"\n  - {difference}" for difference in differences)
        super().__init__(
            f"{what} exists and differs in a way that is not changed under running jobs:{listed}"
        )
        self.what = what
        self.differences = tuple(differences)


class ServiceMissing(InfrastructureError):
    def __init__(self, subject: str) -> None:
        super().__init__(f"nobody answers {subject}: is `trellis-jobs admin serve` running?")
        self.subject = subject


class NotPermitted(InfrastructureError):
    def __init__(self, subject: str, words: str = "") -> None:
        super().__init__(words or f"these credentials may not publish to {subject}")
        self.subject = subject


class InboxNotPermitted(NotPermitted):
    """Answers cannot come, so that nothing can be asked."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            subject,
            f"these credentials may not subscribe to {subject}, where replies arrive: allow "
            "that, or set the prefix that is allowed (ConnectOptions.inbox_prefix, --inbox-prefix)",
        )


class RequestRefused(InfrastructureError):
    """JetStream's own answer, by its error code."""

    def __init__(self, what: str, code: int, description: str) -> None:
        super().__init__(f"{what}: {description} ({code})")
        self.code = code
        self.description = description


class ServerTooOld(InfrastructureError):
    def __init__(self, feature: str, needs: str, has: str) -> None:
        super().__init__(f"{feature} needs nats-server {needs}, this one is {has}")
        self.feature = feature
