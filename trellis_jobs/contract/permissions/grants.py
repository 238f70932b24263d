"""The least that services, operators and the admin runtime must be allowed on a NATS server.

Subjects to publish to and to subscribe to, as the server's own permissions have them. Wildcards
stand for whole tokens, so every queue's consumer is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import (
    ADVISORIES,
    ADVISORY_CONSUMER,
    CONTROL,
    KEYS,
    LOG,
    TO_WORK,
    WORK,
    consumer_of,
    foreign_buckets,
)
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model import subjects
from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trellis_jobs.contract.declaration import JobType, ServiceContract

API: Final = "$JS.API"
_STREAMS: Final = (LOG, WORK, ADVISORIES, KEYS, CONTROL)
# Who may make readers of the log by any name could give this one another filter, and no job starts.
_THE_SOURCE: Final = f"CONSUMER.CREATE.{LOG}.{TO_WORK}"


@dataclass(frozen=True, slots=True)
class Grant:
    """Subjects that go together, and what they are for; `is_local`: no other account has a part."""

    purpose: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Rights:
    """`denied`: not to be published to although a wildcard of a grant includes it.

    `answers`: may reply to whatever it was asked, wherever the answer is to go.
    """

    grants: tuple[Grant, ...]
    denied: tuple[str, ...] = ()
    answers: bool = False

    @property
    def publish(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for grant in self.grants for each in grant.publish))

    @property
    def subscribe(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for grant in self.grants for each in grant.subscribe))

    def __or__(self, other: Rights) -> Rights:
        """What either may: denied is only what neither was given by name."""
        grants = tuple(dict.fromkeys(self.grants + other.grants))
        named = {subject for grant in grants for subject in grant.publish}
        denied = tuple(
            each for each in dict.fromkeys(self.denied + other.denied) if each not in named
        )
        return Rights(grants, denied, self.answers or other.answers)


def inbox_of(name: str) -> str:
    """Where answers to this user come: a prefix that nobody else may listen to."""
    return f"_INBOX_{name}"


def of_service(contract: ServiceContract) -> Rights:
    """To create, work on, look at and cancel its own jobs; its consumers too."""
    name = contract.service
    grants = [_inbox(name), *_own_jobs(name), _presence(name)]
    grants += [_working(name, queue) for _, queue in sorted(contract.queues.items())]
    buckets = {queue.key_policy.bucket for queue in contract.queues.values() if queue.key_policy}
    grants += [_keys(name, bucket) for bucket in sorted(buckets)]
    return Rights(tuple(grants), denied=_api([f"{_THE_SOURCE}.>"]))


def of_provisioner(name: str, contracts: Iterable[ServiceContract] = ()) -> Rights:
    """To make the streams, and bring them up to date; and the consumers of these services."""
    contracts = tuple(contracts)
    found = foreign_buckets(queue for each in contracts for queue in each.queues.values())
    streams = (*_STREAMS, *map(subjects.stream_of_bucket, found))
    calls = [f"STREAM.{verb}.{each}" for each in streams for verb in ("INFO", "CREATE", "UPDATE")]
    source = [
        _THE_SOURCE,
        *(f"CONSUMER.{verb}.{LOG}.{TO_WORK}" for verb in ("INFO", "PAUSE", "DELETE")),
    ]
    return Rights(
        (
            _inbox(name),
            Grant("to learn what the server can", _api(["INFO"])),
            Grant("to make the streams, and bring them up to date", _api(calls)),
            Grant("to have the work queue take over from the log", _api(source)),
            Grant("to have it go on when it has grown", _api([f"STREAM.LEADER.STEPDOWN.{WORK}"])),
            *_consumers(contracts),
        )
    )


def check_apart(contracts: Iterable[ServiceContract]) -> None:
    """Raises DeclarationError if two of them would have a right to one consumer."""
    owners: dict[str, str] = {}
    for contract in contracts:
        for queue in contract.queues.values():
            consumer, own = consumer_of(contract.service, queue), f"{contract.service}/{queue.name}"
            other = owners.setdefault(consumer, own)
            if other != own:
                raise DeclarationError(
                    f"{other} and {own} would have the same consumer, {consumer}, and each the "
                    "right to the other's work: one of them needs another name"
                )


def of_admin(name: str, contracts: Iterable[ServiceContract] = ()) -> Rights:
    """The daemon: every job's events and work, every key; it makes and deletes no stream.

    Keys in other buckets than that of the installation: only those that these services name.
    """
    buckets = foreign_buckets(queue for each in contracts for queue in each.queues.values())
    return Rights(
        (_inbox(name), *_serving(), *_upkeep(), *map(_repairing, buckets)),
        denied=_api([_THE_SOURCE, f"{_THE_SOURCE}.>", f"CONSUMER.DELETE.{LOG}.{TO_WORK}"]),
        answers=True,
    )


def of_operator(name: str, methods: Iterable[str]) -> Rights:
    """To ask the admin runtime these; nothing of JetStream."""
    asked = tuple(subjects.rpc(method) for method in methods)
    return Rights((_inbox(name), Grant("to ask the admin runtime", asked)))


def of_log_reader(name: str) -> Rights:
    """To read the log of every job, as it is and as it grows; changes nothing."""
    calls = [
        f"STREAM.INFO.{LOG}",
        f"DIRECT.GET.{LOG}.{subjects.ALL_EVENTS}",
        f"CONSUMER.CREATE.{LOG}.*.{subjects.ALL_EVENTS}",
        f"CONSUMER.MSG.NEXT.{LOG}.*",
    ]
    return Rights(
        (
            _inbox(name),
            Grant("to read every job's events", _api(calls)),
            # Where there are accounts a server does not pass on what came from a third one.
            Grant("to hear of them at once", subscribe=(subjects.ALL_EVENTS,), is_local=True),
        ),
        denied=_api([f"{_THE_SOURCE}.>"]),
    )


def of_queue_keeper(name: str, contracts: Iterable[ServiceContract] = ()) -> Rights:
    """To list, pause and resume every queue; reasons are kept with the queues of these services."""
    calls = ["INFO", f"CONSUMER.LIST.{WORK}", f"CONSUMER.INFO.{WORK}.*", f"CONSUMER.PAUSE.{WORK}.*"]
    reasons = [
        _making(contract.service, queue)[0]
        for contract in contracts
        for queue in contract.queues.values()
    ]
    return Rights(
        (
            _inbox(name),
            Grant("to list, pause and resume queues", _api(calls)),
            *([Grant("to keep the reason of a pause", _api(reasons))] if reasons else []),
        )
    )


def of_backup(name: str) -> Rights:
    """To take backups of the streams, so it reads everything; it changes nothing."""
    calls = [f"STREAM.{verb}.{each}" for each in _STREAMS for verb in ("INFO", "SNAPSHOT")]
    return Rights(
        (
            _inbox(name),
            Grant("to take backups of the streams", (*_api(calls), "$JS.SNAPSHOT.ACK.>")),
        )
    )


def of_system_user() -> Rights:
    """In the system account: how large the cluster is, and how its servers store."""
    return Rights(
        (
            Grant("to be answered", subscribe=("_INBOX.>",), is_local=True),
            Grant("to ask how the servers are", ("$SYS.REQ.SERVER.PING.JSZ",), is_local=True),
        )
    )


def _inbox(name: str) -> Grant:
    own = f"{inbox_of(name)}.>"
    return Grant("to be answered, in an inbox of its own", subscribe=(own,), is_local=True)


def _own_jobs(service: str) -> tuple[Grant, ...]:
    own = subjects.all_of_service(service)
    calls = [
        f"DIRECT.GET.{LOG}.{own}",
        f"CONSUMER.CREATE.{LOG}.*.{own}",
        f"CONSUMER.MSG.NEXT.{LOG}.*",
    ]
    return (
        Grant("to create and change its own jobs, and to hear of changes", (own,), (own,)),
        Grant("to read its own jobs' events", _api(calls)),
    )


def _presence(service: str) -> Grant:
    own = subjects.presence_of_service(service)
    return Grant("to tell that its workers live", (own, *_api([f"DIRECT.GET.{LOG}.{own}"])))


def _working(service: str, queue: JobType[Any, Any]) -> Grant:
    name = consumer_of(service, queue)
    calls = [*_making(service, queue), f"CONSUMER.MSG.NEXT.{WORK}.{name}"]
    return Grant(f"to work on {queue.name}", (*_api(calls), f"$JS.ACK.{WORK}.{name}.>"))


def _consumers(contracts: Iterable[ServiceContract]) -> Iterator[Grant]:
    for contract in contracts:
        calls = [
            call for queue in contract.queues.values() for call in _making(contract.service, queue)
        ]
        yield Grant(f"to make the consumers of {contract.service}", _api(calls))
        yield Grant("to know what the queues were", _api([f"CONSUMER.LIST.{WORK}"]))
        counted = tuple(map(subjects.rpc, ("Jobs.Stats", "Jobs.ListServices")))
        yield Grant("to know which jobs a migration would touch", counted)


def _making(service: str, queue: JobType[Any, Any]) -> tuple[str, ...]:
    name = consumer_of(service, queue)
    return (
        f"CONSUMER.CREATE.{WORK}.{name}.{subjects.work_of_type(service, queue.name)}",
        f"CONSUMER.INFO.{WORK}.{name}",
    )


def _keys(service: str, bucket: str) -> Grant:
    own = subjects.keys_of_service(service, bucket)
    read = _api([f"DIRECT.GET.{subjects.stream_of_bucket(bucket)}.{own}"])
    return Grant("to read and write its own keys, and to hear of them", (own, *read), (own,))


def _serving() -> tuple[Grant, ...]:
    return (
        Grant(
            "to be asked, and to ask whether others answer",
            (subjects.rpc("Jobs.Health"),),
            (subjects.rpc("Jobs.*"),),
        ),
        Grant("to end, retry and put back jobs", (subjects.ALL_EVENTS, subjects.ALL_WORK)),
        Grant(
            "to read the log, and to look up events",
            _api(
                [
                    f"DIRECT.GET.{LOG}.>",
                    f"STREAM.MSG.GET.{LOG}",
                    f"CONSUMER.CREATE.{LOG}.*.{subjects.ALL_EVENTS}",
                    *_reading(LOG),
                ]
            ),
        ),
        Grant(
            "to read and repair keys",
            (f"$KV.{KEYS_BUCKET}.>", *_api([f"DIRECT.GET.{KEYS}.>", *_reading(KEYS)])),
        ),
        Grant(
            "to record changes of many jobs",
            (subjects.ALL_OPERATIONS, *_api([f"STREAM.MSG.GET.{CONTROL}"])),
        ),
    )


def _repairing(bucket: str) -> Grant:
    stream = subjects.stream_of_bucket(bucket)
    calls = [f"DIRECT.GET.{stream}.>", f"STREAM.INFO.{stream}", *_reading(stream)]
    return Grant(f"to read and repair keys in {bucket}", (f"$KV.{bucket}.>", *_api(calls)))


def _upkeep() -> tuple[Grant, ...]:
    work = [f"STREAM.MSG.GET.{WORK}", f"STREAM.MSG.DELETE.{WORK}"]
    queues = [f"CONSUMER.INFO.{WORK}.*", f"CONSUMER.LIST.{WORK}"]
    readers = [f"CONSUMER.LIST.{LOG}"]
    mine = f"{ADVISORIES}.{ADVISORY_CONSUMER}"
    calls = [f"CONSUMER.CREATE.{mine}.>", f"CONSUMER.INFO.{mine}", f"CONSUMER.MSG.NEXT.{mine}"]
    return (
        Grant("to remove jobs whose time is over", _api([f"STREAM.PURGE.{LOG}"])),
        Grant("to look up work, and remove what was given up", _api(work)),
        Grant("to know of every queue", _api(queues)),
        Grant("to find readers that services have left behind", _api(readers)),
        Grant(
            "to learn of exhausted deliveries",
            (*_api(calls), f"$JS.ACK.{mine}.>"),
        ),
        Grant(
            "to know how the streams are",
            _api(
                [
                    "INFO",
                    *(f"STREAM.INFO.{each}" for each in _STREAMS),
                    f"CONSUMER.INFO.{LOG}.{TO_WORK}",
                ]
            ),
        ),
    )


def _reading(stream: str) -> tuple[str, ...]:
    """With consumers of its own, which it deletes when it has read."""
    return (
        f"CONSUMER.CREATE.{stream}.*",
        f"CONSUMER.MSG.NEXT.{stream}.*",
        f"CONSUMER.DELETE.{stream}.*",
    )


def _api(calls: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{API}.{call}" for call in calls)
