"""The permissions of the admin runtime: all events, work and keys, but no changes of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.contract.permissions.grants import (
    CREATE_TO_WORK,
    STREAMS,
    Grant,
    Permissions,
    api_subjects,
    private_inbox,
)
from trellis_jobs.contract.topology import (
    ADVISORIES,
    ADVISORY_CONSUMER,
    CONTROL,
    DUE_CONSUMER,
    KEYS,
    LOG,
    TO_WORK,
    WORK,
    alarms_stream,
    foreign_buckets,
)
from trellis_jobs.model import subjects
from trellis_jobs.model.audit_recorder import AuditRecorder
from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.contract.declaration import ServiceContract


def of_admin(name: str, contracts: Iterable[ServiceContract] = ()) -> Permissions:
    """The admin runtime: all events, work and keys, but no changes of streams.

    Of the buckets of other runtimes and the streams for alarms, only those of these services are
    included.
    """
    contracts = tuple(contracts)
    buckets = foreign_buckets(queue for each in contracts for queue in each.queues.values())
    alarms = [_monitoring_alarms(each.service) for each in contracts]
    return Permissions(
        (private_inbox(name), *_serving(), *_maintenance(), *map(_repairing, buckets), *alarms),
        denied=api_subjects(
            [CREATE_TO_WORK, f"{CREATE_TO_WORK}.>", f"CONSUMER.DELETE.{LOG}.{TO_WORK}"]
        ),
        allow_responses=True,
    )


def _serving() -> tuple[Grant, ...]:
    return (
        Grant(
            "to receive requests, and to check that other admin runtimes answer",
            (subjects.rpc("Jobs.Health"),),
            (subjects.rpc("Jobs.*"),),
        ),
        Grant("to end, retry and requeue jobs", (subjects.ALL_EVENTS, subjects.ALL_WORK)),
        _alarms(),
        Grant(
            "to read the log, and to look up events",
            api_subjects(
                [
                    f"DIRECT.GET.{LOG}.>",
                    f"STREAM.MSG.GET.{LOG}",
                    f"CONSUMER.CREATE.{LOG}.*.{subjects.ALL_EVENTS}",
                    *_reader_calls(LOG),
                ]
            ),
        ),
        Grant(
            "to read and repair keys",
            (f"$KV.{KEYS_BUCKET}.>", *api_subjects([f"DIRECT.GET.{KEYS}.>", *_reader_calls(KEYS)])),
        ),
        Grant(
            "to record bulk operations, to direct workers, to change schedules, and to record what "
            "operators did",
            (
                subjects.ALL_OPERATIONS,
                subjects.ALL_WORKERS,
                subjects.ALL_SCHEDULES,
                subjects.audit_of(AuditRecorder.ADMIN),
                *api_subjects(
                    [
                        f"DIRECT.GET.{CONTROL}.>",
                        f"STREAM.MSG.GET.{CONTROL}",
                        f"CONSUMER.CREATE.{CONTROL}.*.{subjects.ALL_WORKERS}",
                        f"CONSUMER.CREATE.{CONTROL}.*.{subjects.ALL_SCHEDULES}",
                        f"CONSUMER.CREATE.{CONTROL}.*.{subjects.ALL_AUDIT}",
                        *_reader_calls(CONTROL),
                    ]
                ),
            ),
        ),
    )


def _alarms() -> Grant:
    """Each service has a stream for its alarms, whose subjects and consumer have fixed names."""
    calls = [f"DIRECT.GET.*.{subjects.ALL_ALARMS}", f"CONSUMER.INFO.*.{DUE_CONSUMER}"]
    return Grant(
        "to move delayed jobs to another time, and to check and repair their alarms",
        (subjects.ALL_ALARMS, subjects.ALL_DUE, *api_subjects(calls)),
    )


def _repairing(bucket: str) -> Grant:
    stream = subjects.stream_of_bucket(bucket)
    calls = [f"DIRECT.GET.{stream}.>", f"STREAM.INFO.{stream}", *_reader_calls(stream)]
    return Grant(f"to read and repair keys in {bucket}", (f"$KV.{bucket}.>", *api_subjects(calls)))


def _monitoring_alarms(service: str) -> Grant:
    call = f"STREAM.INFO.{alarms_stream(service)}"
    return Grant("to monitor the streams for alarms", api_subjects([call]))


def _maintenance() -> tuple[Grant, ...]:
    work = [f"STREAM.MSG.GET.{WORK}", f"STREAM.MSG.DELETE.{WORK}"]
    queues = [f"CONSUMER.INFO.{WORK}.*", f"CONSUMER.LIST.{WORK}"]
    # A pause changes the consumer, and its reason is stored in the consumer's metadata.
    pauses = [f"CONSUMER.PAUSE.{WORK}.*", f"CONSUMER.CREATE.{WORK}.*.{subjects.ALL_WORK}"]
    readers = [f"CONSUMER.LIST.{LOG}"]
    mine = f"{ADVISORIES}.{ADVISORY_CONSUMER}"
    calls = [f"CONSUMER.CREATE.{mine}.>", f"CONSUMER.INFO.{mine}", f"CONSUMER.MSG.NEXT.{mine}"]
    return (
        Grant("to purge jobs after their retention time", api_subjects([f"STREAM.PURGE.{LOG}"])),
        Grant("to look up work messages, and delete exhausted ones", api_subjects(work)),
        Grant("to list all queues", api_subjects(queues)),
        Grant("to pause and resume queues, and to store the reason", api_subjects(pauses)),
        Grant("to find consumers that services did not delete", api_subjects(readers)),
        Grant(
            "to receive advisories about exhausted deliveries",
            (*api_subjects(calls), f"$JS.ACK.{mine}.>"),
        ),
        Grant(
            "to monitor the streams",
            api_subjects(
                [
                    "INFO",
                    "STREAM.NAMES",
                    *(f"STREAM.INFO.{each}" for each in STREAMS),
                    f"CONSUMER.INFO.{LOG}.{TO_WORK}",
                ]
            ),
        ),
    )


def _reader_calls(stream: str) -> tuple[str, ...]:
    """Read a stream with temporary consumers, which are deleted afterwards."""
    return (
        f"CONSUMER.CREATE.{stream}.*",
        f"CONSUMER.MSG.NEXT.{stream}.*",
        f"CONSUMER.DELETE.{stream}.*",
    )
