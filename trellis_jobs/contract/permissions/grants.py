"""The minimal permissions of services, operators and the admin runtime on a NATS server.

They list the subjects to publish and subscribe to. Wildcards match whole tokens, so the consumer of
every queue is listed by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import (
    ADVISORIES,
    CONTROL,
    DUE_CONSUMER,
    KEYS,
    LOG,
    TO_WORK,
    WORK,
    alarms_stream,
    consumer_of,
    foreign_buckets,
)
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model import subjects
from trellis_jobs.model.audit_recorder import AuditRecorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trellis_jobs.contract.declaration import JobType, ServiceContract

API: Final = "$JS.API"
STREAMS: Final = (LOG, WORK, ADVISORIES, KEYS, CONTROL)
# Denied to users who may create consumers of the log with any name: changing the filter of
# `to-work` would stop all jobs from starting.
CREATE_TO_WORK: Final = f"CONSUMER.CREATE.{LOG}.{TO_WORK}"


@dataclass(frozen=True, slots=True)
class Grant:
    """Subjects for one purpose. `is_local`: they are not imported from another account."""

    purpose: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Permissions:
    """`denied` has subjects that a wildcard of a grant matches, but that are not permitted.

    `allow_responses`: the user may reply to any request it receives.
    """

    grants: tuple[Grant, ...]
    denied: tuple[str, ...] = ()
    allow_responses: bool = False

    @property
    def publish(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for grant in self.grants for each in grant.publish))

    @property
    def subscribe(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for grant in self.grants for each in grant.subscribe))

    def __or__(self, other: Permissions) -> Permissions:
        """Combine permissions. A subject stays denied only if no grant lists it."""
        grants = tuple(dict.fromkeys(self.grants + other.grants))
        named = {subject for grant in grants for subject in grant.publish}
        denied = tuple(
            each for each in dict.fromkeys(self.denied + other.denied) if each not in named
        )
        return Permissions(grants, denied, self.allow_responses or other.allow_responses)


def inbox_prefix(name: str) -> str:
    """The inbox prefix of a user. No other user may subscribe to it."""
    return f"_INBOX_{name}"


def of_service(contract: ServiceContract) -> Permissions:
    """A service: create, run, read and cancel its own jobs, and manage its consumers."""
    name = contract.service
    grants = [private_inbox(name), *_own_jobs(name), _presence(name), _worker_records(name)]
    grants += [_alarms(name), _schedules(name)]
    grants += [_working(name, queue) for _, queue in sorted(contract.queues.items())]
    buckets = {queue.key_policy.bucket for queue in contract.queues.values() if queue.key_policy}
    grants += [_keys(name, bucket) for bucket in sorted(buckets)]
    return Permissions(tuple(grants), denied=api_subjects([f"{CREATE_TO_WORK}.>"]))


def of_provisioner(name: str, contracts: Iterable[ServiceContract] = ()) -> Permissions:
    """A provisioner: create and update the streams and the consumers of these services."""
    contracts = tuple(contracts)
    found = foreign_buckets(queue for each in contracts for queue in each.queues.values())
    alarms = (alarms_stream(each.service) for each in contracts)
    streams = (*STREAMS, *map(subjects.stream_of_bucket, found), *alarms)
    calls = [f"STREAM.{verb}.{each}" for each in streams for verb in ("INFO", "CREATE", "UPDATE")]
    source = [
        CREATE_TO_WORK,
        *(f"CONSUMER.{verb}.{LOG}.{TO_WORK}" for verb in ("INFO", "PAUSE", "DELETE")),
    ]
    return Permissions(
        (
            private_inbox(name),
            Grant("to detect the features of the server", api_subjects(["INFO"])),
            Grant("to find the streams for alarms", api_subjects(["STREAM.NAMES"])),
            Grant("to create and update the streams", api_subjects(calls)),
            Grant("to let the work queue source the log", api_subjects(source)),
            Grant(
                "to restart sourcing after the replicas changed",
                api_subjects([f"STREAM.LEADER.STEPDOWN.{WORK}"]),
            ),
            *_consumers(contracts),
        )
    )


def check_distinct_consumers(contracts: Iterable[ServiceContract]) -> None:
    """Raises DeclarationError if two queues would have the same consumer."""
    owners: dict[str, str] = {}
    for contract in contracts:
        for queue in contract.queues.values():
            consumer, own = consumer_of(contract.service, queue), f"{contract.service}/{queue.name}"
            other = owners.setdefault(consumer, own)
            if other != own:
                raise DeclarationError(
                    f"{other} and {own} would share the consumer {consumer}, so each could receive "
                    "the other's jobs: rename one of them"
                )


def of_operator(name: str, methods: Iterable[str]) -> Permissions:
    """An operator: call these methods of the admin runtime. No access to JetStream."""
    requests = tuple(subjects.rpc(method) for method in methods)
    return Permissions(
        (private_inbox(name), Grant("to send requests to the admin runtime", requests))
    )


def of_log_reader(name: str) -> Permissions:
    """A log reader: read all events, also new ones. Changes nothing."""
    calls = [
        f"STREAM.INFO.{LOG}",
        f"DIRECT.GET.{LOG}.{subjects.ALL_EVENTS}",
        f"CONSUMER.CREATE.{LOG}.*.{subjects.ALL_EVENTS}",
        f"CONSUMER.MSG.NEXT.{LOG}.*",
    ]
    return Permissions(
        (
            private_inbox(name),
            Grant("to read every job's events", api_subjects(calls)),
            _reading_workers(),
            # Local, because servers do not forward messages between two importing accounts.
            Grant("to receive new events at once", subscribe=(subjects.ALL_EVENTS,), is_local=True),
        ),
        denied=api_subjects([f"{CREATE_TO_WORK}.>"]),
    )


def of_queue_operator(name: str, contracts: Iterable[ServiceContract] = ()) -> Permissions:
    """List, pause and resume all queues, and store pause reasons for these services' queues."""
    calls = ["INFO", f"CONSUMER.LIST.{WORK}", f"CONSUMER.INFO.{WORK}.*", f"CONSUMER.PAUSE.{WORK}.*"]
    reasons = [
        _consumer_calls(contract.service, queue)[0]
        for contract in contracts
        for queue in contract.queues.values()
    ]
    return Permissions(
        (
            private_inbox(name),
            Grant("to list, pause and resume queues", api_subjects(calls)),
            _reading_workers(),
            _recording_commands(),
            *([Grant("to store the reason of a pause", api_subjects(reasons))] if reasons else []),
        )
    )


def of_worker_operator(name: str) -> Permissions:
    """List all workers and direct them, without an admin runtime."""
    return Permissions(
        (
            private_inbox(name),
            Grant("to detect the features of the server", api_subjects(["INFO"])),
            _reading_workers(),
            Grant("to direct workers", (subjects.ALL_WORKERS,)),
            _recording_commands(),
        )
    )


def _recording_commands() -> Grant:
    own = subjects.audit_of(AuditRecorder.COMMAND)
    return Grant("to record what the operator did", (own,))


def _reading_workers() -> Grant:
    calls = [f"STREAM.INFO.{CONTROL}", f"DIRECT.GET.{CONTROL}.{subjects.ALL_WORKERS}"]
    return Grant("to read the records of workers", api_subjects(calls))


def of_backup(name: str) -> Permissions:
    """Back up the streams: reads everything, changes nothing."""
    calls = [f"STREAM.{verb}.{each}" for each in STREAMS for verb in ("INFO", "SNAPSHOT")]
    return Permissions(
        (
            private_inbox(name),
            Grant("to take backups of the streams", (*api_subjects(calls), "$JS.SNAPSHOT.ACK.>")),
        )
    )


def of_system_user() -> Permissions:
    """A user of the system account: read the size of the cluster and its storage settings."""
    return Permissions(
        (
            Grant("to receive replies", subscribe=("_INBOX.>",), is_local=True),
            Grant("to read the state of the servers", ("$SYS.REQ.SERVER.PING.JSZ",), is_local=True),
        )
    )


def private_inbox(name: str) -> Grant:
    own = f"{inbox_prefix(name)}.>"
    return Grant("to receive replies in a private inbox", subscribe=(own,), is_local=True)


def _own_jobs(service: str) -> tuple[Grant, ...]:
    own = subjects.all_of_service(service)
    calls = [
        f"DIRECT.GET.{LOG}.{own}",
        f"CONSUMER.CREATE.{LOG}.*.{own}",
        f"CONSUMER.MSG.NEXT.{LOG}.*",
    ]
    return (
        Grant("to create and change its own jobs, and to receive their changes", (own,), (own,)),
        Grant("to read its own jobs' events", api_subjects(calls)),
    )


def _presence(service: str) -> Grant:
    own = subjects.presence_of_service(service)
    return Grant(
        "to send the heartbeats of its workers", (own, *api_subjects([f"DIRECT.GET.{LOG}.{own}"]))
    )


def _worker_records(service: str) -> Grant:
    own = subjects.workers_of_service(service)
    read = api_subjects([f"DIRECT.GET.{CONTROL}.{own}"])
    hints = subjects.worker_hints_of_service(service)
    return Grant("to register its workers, and to receive directives", (own, *read), (hints,))


def _alarms(service: str) -> Grant:
    stream = alarms_stream(service)
    consumer = f"{stream}.{DUE_CONSUMER}"
    calls = [
        f"DIRECT.GET.{stream}.{subjects.alarms_of_service(service)}",
        f"DIRECT.GET.{stream}.{subjects.due_of_service(service)}",
        f"CONSUMER.CREATE.{consumer}.{subjects.due_of_service(service)}",
        f"CONSUMER.INFO.{consumer}",
        f"CONSUMER.MSG.NEXT.{consumer}",
    ]
    own = (subjects.alarms_of_service(service), subjects.due_of_service(service))
    publish = (*own, *api_subjects(calls), f"$JS.ACK.{consumer}.>")
    return Grant(
        "to set the alarms of its delayed jobs and schedules, and to receive them", publish
    )


def _schedules(service: str) -> Grant:
    own = subjects.schedules_of_service(service)
    calls = [
        f"DIRECT.GET.{CONTROL}.{own}",
        f"CONSUMER.CREATE.{CONTROL}.*.{own}",
        f"CONSUMER.MSG.NEXT.{CONTROL}.*",
    ]
    return Grant("to read and write its own schedules", (own, *api_subjects(calls)))


def _working(service: str, queue: JobType[Any, Any]) -> Grant:
    name = consumer_of(service, queue)
    calls = [*_consumer_calls(service, queue), f"CONSUMER.MSG.NEXT.{WORK}.{name}"]
    return Grant(f"to work on {queue.name}", (*api_subjects(calls), f"$JS.ACK.{WORK}.{name}.>"))


def _consumers(contracts: Iterable[ServiceContract]) -> Iterator[Grant]:
    for contract in contracts:
        calls = [
            call
            for queue in contract.queues.values()
            for call in _consumer_calls(contract.service, queue)
        ]
        yield Grant(f"to create the consumers of {contract.service}", api_subjects(calls))
        yield Grant(
            "to compare the queues with their stored contracts",
            api_subjects([f"CONSUMER.LIST.{WORK}"]),
        )
        counted = subjects.rpc("Jobs.ListQueues")
        yield Grant("to count the jobs that a migration would affect", (counted,))


def _consumer_calls(service: str, queue: JobType[Any, Any]) -> tuple[str, ...]:
    name = consumer_of(service, queue)
    return (
        f"CONSUMER.CREATE.{WORK}.{name}.{subjects.work_of_type(service, queue.name)}",
        f"CONSUMER.INFO.{WORK}.{name}",
    )


def _keys(service: str, bucket: str) -> Grant:
    own = subjects.keys_of_service(service, bucket)
    read = api_subjects([f"DIRECT.GET.{subjects.stream_of_bucket(bucket)}.{own}"])
    return Grant(
        "to read and write its own keys, and to receive their changes", (own, *read), (own,)
    )


def api_subjects(calls: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{API}.{call}" for call in calls)
