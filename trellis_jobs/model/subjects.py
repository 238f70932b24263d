"""All NATS subjects of this system, built and parsed in one place.

trellis.jobs.<service>.<type>.<id>.<event>                   lifecycle, the log
trellis.jobs.<service>.<type>.<id>.<lane>.<event>            reserved: first events with a priority
trellis.jobs.workers.<service>.<type>.<instance>.heartbeat   presence
trellis.work.<service>.<type>.<id>                           work, sourced from the log
trellis.alarm.<service>.<family>.<type>.<name>               an alarm; the server keeps it
trellis.due.<service>.<family>.<type>.<name>                 the alarm when its time has come
trellis.work.<service>.<type>.<id>.<lane>                    reserved: work with a priority
trellis.control.jobs.operations.<id>                         bulk operations, newest value
trellis.control.jobs.workers.<service>.<instance>            worker processes, newest value
trellis.control.jobs.schedules.<service>.<type>.<name>       schedules, newest value
trellis.control.jobs.audit.<recorder>.<id>                   what operators did, one record each
trellis.hints.jobs.workers.<service>.<instance>              a worker's record was stored
rpc.v1.<method>                                              requests to the admin runtime
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.audit_recorder import AuditRecorder
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import PRESENCE_NAME, JobAddress, check_service, check_token
from trellis_jobs.model.keys.state import KEYS_BUCKET, KeyAddress
from trellis_jobs.model.values import Value

ALL_EVENTS: Final = "trellis.jobs.>"
ALL_WORK: Final = "trellis.work.>"
ALL_CONTROL: Final = "trellis.control.jobs.>"
ALL_OPERATIONS: Final = "trellis.control.jobs.operations.*"
ALL_WORKERS: Final = "trellis.control.jobs.workers.*.*"
# The stream republishes each stored record of a worker there, without its data.
WORKER_HINT_FROM_TOKENS: Final = "trellis.hints.jobs.workers.{{wildcard(1)}}.{{wildcard(2)}}"
ALL_PRESENCE: Final = "trellis.jobs.workers.>"
# The tokens after trellis.jobs.workers: service, type, instance and "heartbeat".
PRESENCE_TOKEN_COUNT: Final = 4
RESERVED_WORK: Final = f"trellis.work.{PRESENCE_NAME}.>"
# A source writes all its transforms into every work message, so these are short.
WORK_FROM_TOKENS: Final = "trellis.work.$1.$2.$3"
LANE_WORK_FROM_TOKENS: Final = "trellis.work.$1.$2.$3.$4"
# The same as WORK_FROM_TOKENS, as sources without lanes have it.
FORMER_WORK_FROM_TOKENS: Final = "trellis.work.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
# The transforms of the original runtimes, which put all jobs of a queue under one subject.
WORK_WITHOUT_IDS: Final = frozenset(
    {"trellis.work.$1.$2", "trellis.work.{{wildcard(1)}}.{{wildcard(2)}}"}
)
ALL_ALARMS: Final = "trellis.alarm.>"
ALL_DUE: Final = "trellis.due.>"
_SCHEDULES: Final = "trellis.control.jobs.schedules"
ALL_SCHEDULES: Final = f"{_SCHEDULES}.*.*.*"
_AUDIT: Final = "trellis.control.jobs.audit"
ALL_AUDIT: Final = f"{_AUDIT}.*.*"
_RPC: Final = "rpc.v1."
# Inboxes of clients, and the reply subjects that servers substitute between accounts.
_INBOXES: Final = ("_INBOX", "_R_.")
_KINDS: Final = {kind.value: kind for kind in EventKind}


class LifecycleSubject(Value, frozen=True):
    job: JobAddress
    kind: EventKind


class PresenceSubject(Value, frozen=True):
    service: str
    job_type: str
    instance: str


class WorkSubject(Value, frozen=True):
    job: JobAddress


class AlarmFamily(StrEnum):
    """What an alarm is for. `name` in its subject is the id of a job, or a schedule's name."""

    JOB = "job"
    SCHEDULE = "schedule"


class AlarmAddress(Value, frozen=True):
    """What waits for a moment: a job until it may run, or a schedule until its next tick."""

    service: str
    family: AlarmFamily
    job_type: str
    name: str

    def __post_init__(self) -> None:
        check_service(self.service)
        check_token("job type", self.job_type)
        check_token(self.family, self.name)


class WorkerSubject(Value, frozen=True):
    """The subject of the record of a worker process."""

    service: str
    instance: str

    def __str__(self) -> str:
        return f"{self.service}/{self.instance}"


_RECORDERS: Final = frozenset(recorder.value for recorder in AuditRecorder)
_ALARM_FAMILIES: Final = frozenset(family.value for family in AlarmFamily)


def lifecycle(job: JobAddress, kind: EventKind) -> str:
    return f"trellis.jobs.{job.service}.{job.job_type}.{job.job_id}.{kind.value}"


def of_job(job: JobAddress) -> str:
    """The prefix of the subjects of all events of one job."""
    return f"trellis.jobs.{job.service}.{job.job_type}.{job.job_id}"


def history(job: JobAddress) -> str:
    """A filter for all events of one job. The server checks guards against it."""
    return f"{of_job(job)}.>"


def of_id(job_id: str) -> str:
    """A filter for all events of jobs with this id, in any queue."""
    return f"trellis.jobs.*.*.{job_id}.*"


def matching(
    service: str | None = None, job_type: str | None = None, kind: EventKind | None = None
) -> str:
    """A filter for job events; None matches any. Heartbeats have more tokens and do not match."""
    return f"trellis.jobs.{service or '*'}.{job_type or '*'}.*.{kind.value if kind else '*'}"


def of_service(service: str) -> str:
    """A filter for all events of all jobs of a service."""
    return matching(service)


def all_of_service(service: str) -> str:
    """Everything under the service's name: the subjects to which it may publish."""
    return f"trellis.jobs.{service}.>"


def presence_of_service(service: str) -> str:
    """The heartbeats of a service only: `….workers.<service>.<any>.created` would become work."""
    return presence(service, "*", "*")


def of_kind(service: str, job_type: str, kind: EventKind) -> str:
    """A filter for one kind of event of all jobs of a type."""
    return matching(service, job_type, kind)


def of_any_job(kind: EventKind) -> str:
    return matching(kind=kind)


def of_any_job_in_a_lane(kind: EventKind) -> str:
    """Like `of_any_job`, for jobs with a priority, whose subjects name a lane.

    The lane comes before the event. With `created.<lane>` the heartbeats of an instance that is
    called `created` would match, and become work.
    """
    return f"trellis.jobs.*.*.*.*.{kind.value}"


def presence(service: str, job_type: str, instance: str) -> str:
    return f"trellis.jobs.workers.{service}.{job_type}.{instance}.heartbeat"


def work(job: JobAddress) -> str:
    return f"trellis.work.{job.service}.{job.job_type}.{job.job_id}"


def work_of_type(service: str, job_type: str) -> str:
    return f"trellis.work.{service}.{job_type}.*"


def queue_of(work_filter: str) -> tuple[str, str] | None:
    """The service and type whose work a consumer with this filter receives, or None."""
    match work_filter.split("."):
        case ["trellis", "work", service, job_type, "*"]:
            return service, job_type
        case _:
            return None


def queue_of_prefix(prefix: str) -> tuple[str, str] | None:
    """The service and type whose events are published under this prefix, or None."""
    match prefix.split("."):
        case ["trellis", "jobs", service, job_type]:
            return service, job_type
        case _:
            return None


def service_of(event_filter: str) -> str | None:
    """The service whose events a consumer reads, or None if it reads those of several."""
    match event_filter.split("."):
        case ["trellis", "jobs", "workers", service, *_] | [
            "trellis",
            ("jobs" | "work"),
            service,
            *_,
        ]:
            return None if service in {"*", ">"} else service
        case _:
            return None


def key_state(key: KeyAddress) -> str:
    return f"$KV.{key.bucket}.{key.service}.{key.job_type}.{key.hash}"


def key_address(subject: str) -> KeyAddress | None:
    """The key whose state is stored under a subject of a bucket, or None."""
    match subject.split("."):
        case ["$KV", bucket, service, job_type, key_hash]:
            try:
                return KeyAddress(service, job_type, key_hash, bucket)
            except InvalidToken:
                return None
        case _:
            return None


def keys_of_service(service: str, bucket: str = KEYS_BUCKET) -> str:
    return f"$KV.{bucket}.{service}.>"


def keys_of_type(service: str, job_type: str, bucket: str = KEYS_BUCKET) -> str:
    return f"$KV.{bucket}.{service}.{job_type}.*"


def stream_of_bucket(bucket: str) -> str:
    return f"KV_{bucket}"


def alarm_of_job(job: JobAddress) -> AlarmAddress:
    return AlarmAddress(job.service, AlarmFamily.JOB, job.job_type, job.job_id)


def alarm(address: AlarmAddress) -> str:
    """Where the server keeps an alarm until its time has come."""
    return f"trellis.alarm.{_alarm_tokens(address)}"


def due(address: AlarmAddress) -> str:
    """Where the server publishes an alarm when its time has come."""
    return f"trellis.due.{_alarm_tokens(address)}"


def alarms_of_service(service: str) -> str:
    return f"trellis.alarm.{service}.>"


def due_of_service(service: str) -> str:
    return f"trellis.due.{service}.>"


def due_address(subject: str) -> AlarmAddress | None:
    """The alarm whose time has come, or None for another subject."""
    match subject.split("."):
        case ["trellis", "due", service, family, job_type, name] if family in _ALARM_FAMILIES:
            try:
                return AlarmAddress(service, AlarmFamily(family), job_type, name)
            except InvalidToken:
                return None
        case _:
            return None


def _alarm_tokens(address: AlarmAddress) -> str:
    return f"{address.service}.{address.family.value}.{address.job_type}.{address.name}"


def operation(operation_id: str) -> str:
    """The record of a bulk operation. Only the admin runtime reads and writes it."""
    return f"trellis.control.jobs.operations.{check_token('operation', operation_id)}"


def worker(service: str, instance: str) -> str:
    """The record of a worker process. Its service, operators and admin runtimes write it."""
    return (
        f"trellis.control.jobs.workers.{check_service(service)}.{check_token('instance', instance)}"
    )


def workers_of_service(service: str) -> str:
    return f"trellis.control.jobs.workers.{service}.*"


def worker_hint(service: str, instance: str) -> str:
    """Where a worker learns that its record was stored. Only the server publishes there."""
    return (
        f"trellis.hints.jobs.workers.{check_service(service)}.{check_token('instance', instance)}"
    )


def worker_hints_of_service(service: str) -> str:
    return f"trellis.hints.jobs.workers.{service}.*"


def schedule(service: str, job_type: str, name: str) -> str:
    """The record of a schedule. Its service, operators and admin runtimes write it."""
    tokens = (check_service(service), check_token("job type", job_type))
    return f"{_SCHEDULES}.{'.'.join(tokens)}.{check_token('schedule', name)}"


def schedules_of_service(service: str) -> str:
    return f"{_SCHEDULES}.{service}.*.*"


def schedule_address(subject: str) -> AlarmAddress | None:
    """The schedule whose record is stored under a subject, or None."""
    match subject.removeprefix(f"{_SCHEDULES}.").split("."):
        case [service, job_type, name] if subject.startswith(f"{_SCHEDULES}."):
            try:
                return AlarmAddress(service, AlarmFamily.SCHEDULE, job_type, name)
            except InvalidToken:
                return None
        case _:
            return None


def audit(recorder: AuditRecorder, record_id: str) -> str:
    """The record of what an operator did. It is written once and never changed."""
    return f"{_AUDIT}.{recorder.value}.{check_token('record', record_id)}"


def audit_of(recorder: AuditRecorder) -> str:
    return f"{_AUDIT}.{recorder.value}.*"


def audit_recorder(subject: str) -> AuditRecorder | None:
    """Who wrote the record under this subject, or None for another subject."""
    match subject.removeprefix(f"{_AUDIT}.").split("."):
        case [recorder, _] if recorder in _RECORDERS and subject.startswith(f"{_AUDIT}."):
            return AuditRecorder(recorder)
        case _:
            return None


def rpc(method: str) -> str:
    """The subject of an admin runtime method: `Jobs.List` is called on `rpc.v1.Jobs.List`."""
    return f"{_RPC}{method}"


def rpc_method(subject: str) -> str:
    return subject.removeprefix(_RPC)


def is_inbox(subject: str) -> bool:
    """Whether the subject is a reply inbox."""
    return subject.startswith(_INBOXES)


def parse(
    subject: str,
) -> LifecycleSubject | PresenceSubject | WorkSubject | WorkerSubject | None:
    """Parse a subject. Returns None if it is not one of this system's subjects."""
    under, _, kind = subject.rpartition(".")
    try:
        job = _job_of_prefix(under) if kind in _KINDS else None
        return _parse_other(subject) if job is None else LifecycleSubject(job, _KINDS[kind])
    except InvalidToken:
        return None


@lru_cache(maxsize=8192)
def _job_of_prefix(under: str) -> JobAddress | None:
    """Cached, because the events of a job arrive close together."""
    match under.split("."):
        case ["trellis", "jobs", service, job_type, job_id]:
            return JobAddress(service, job_type, job_id)
        case _:
            return None


def _parse_other(subject: str) -> PresenceSubject | WorkSubject | WorkerSubject | None:
    match subject.split("."):
        case ["trellis", "work", service, job_type, job_id]:
            return WorkSubject(JobAddress(service, job_type, job_id))
        case ["trellis", "jobs", "workers", service, job_type, instance, "heartbeat"]:
            check_token("instance", instance)
            return PresenceSubject(check_service(service), check_token("type", job_type), instance)
        case ["trellis", "control", "jobs", "workers", service, instance]:
            return WorkerSubject(check_service(service), check_token("instance", instance))
        case _:
            return None
