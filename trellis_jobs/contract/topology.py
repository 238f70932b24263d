"""The streams, consumers and bucket that jobs need, as configurations of the JetStream API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.features import Features

LOG: Final = "JOBS"
WORK: Final = "JOBS_WORK"
ADVISORIES: Final = "JOBS_ADVISORIES"
KEYS: Final = subjects.stream_of_bucket(KEYS_BUCKET)
CONTROL: Final = "JOBS_CONTROL"
TO_WORK: Final = "to-work"
# The former delivery subject of `to-work`. It is now random, because a service that knows it could
# slow down all others.
FIXED_DELIVERY: Final = "_src.jobs.work"
ADVISORY_CONSUMER: Final = "jobs-advisories"
_ALARMS_PREFIX: Final = "JOBS_ALARMS_"
DUE_CONSUMER: Final = "due"
# The lease of an alarm that a worker process holds; after its death another process gets it.
_ALARM_LEASE: Final = timedelta(seconds=5)
# Every worker process of a service has a waiting pull; the default of a consumer is 512.
_MAX_WAITING_PULLS: Final = 10_000

ENQUEUING: Final = (EventKind.CREATED, EventKind.RETRIED)
# What the work queue copies from the log, and under which subjects. Lanes are for priorities, which
# a later version will have.
FILTERS: Final = tuple(map(subjects.of_any_job, ENQUEUING))
LANE_FILTERS: Final = tuple(map(subjects.of_any_job_in_a_lane, ENQUEUING))
_TRANSFORMS: Final = (
    *((each, subjects.WORK_FROM_TOKENS) for each in FILTERS),
    *((each, subjects.LANE_WORK_FROM_TOKENS) for each in LANE_FILTERS),
)
_FORMER_TRANSFORMS: Final = tuple((each, subjects.FORMER_WORK_FROM_TOKENS) for each in FILTERS)
_ANY_MAX_DELIVERIES: Final = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"
_MAX_DELIVERIES: Final = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{WORK}.>"
_ADVISORY_AGE: Final = timedelta(days=7)

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Topology:
    """The streams and consumers that should exist on the server.

    `replicas`: if set, existing streams are resized to it. Otherwise new streams get
    `detected_replicas`, and existing streams keep their number.

    `by_operator`: an operator applies it and makes sure that all servers of the cluster have
    `features`. Otherwise existing streams get no settings that older servers, or older versions of
    this library, do not support.

    `buckets` are the key buckets of other runtimes with which queues are shared.

    `work_delivery` is the delivery subject of `to-work`. An existing consumer keeps its subject; a
    new one gets a random subject from `jetstream/setup/work_source.py`.

    `alarms_of` are the services that get a stream for the alarms of their delayed jobs.

    `with_control`: False leaves out the stream JOBS_CONTROL, which only some features need and
    older installations do not have.

    `with_lanes`: False for a work queue that copies no jobs with a priority, as older versions of
    this library created it. Those versions do not start on any other.
    """

    features: Features
    replicas: int | None = None
    detected_replicas: int = 1
    by_operator: bool = False
    work_delivery: str = FIXED_DELIVERY
    buckets: tuple[str, ...] = ()
    with_control: bool = True
    alarms_of: tuple[str, ...] = ()
    with_lanes: bool = True

    def streams(self) -> tuple[Config, ...]:
        """In the order in which they must be created: the work queue sources the log."""
        others = map(self._foreign_keys, self.buckets)
        needed = (self.log(), self.work(), self.advisories(), self.keys(), *others)
        control = (self.control(),) if self.with_control else ()
        return (*needed, *control, *map(self.alarms, self.alarms_of))

    def log(self) -> Config:
        config = self._stream(LOG, [subjects.ALL_EVENTS])
        # No limits here, so that limits set by an operator, such as max_bytes, are kept.
        config |= {"retention": "limits", "allow_direct": True, "allow_rollup_hdrs": False}
        if self.features.message_ttl:
            config["allow_msg_ttl"] = True
        if self.features.atomic_batches:
            config["allow_atomic"] = True
        if self.features.fast_batches:
            config["allow_batched"] = True
        return config

    def work(self) -> Config:
        # With four transforms, 2.10 sometimes copies no job (seen with 2.10.26).
        has_lanes = self.with_lanes and self.features.guarded_appends
        transforms = _TRANSFORMS if has_lanes else _FORMER_TRANSFORMS
        source: Config = {
            "name": LOG,
            "subject_transforms": [{"src": src, "dest": dest} for src, dest in transforms],
        }
        if self.features.durable_sourcing:
            source["consumer"] = {"name": TO_WORK, "deliver_subject": self.work_delivery}
        config = self._stream(WORK, [subjects.ALL_WORK])
        # Explicit, because a limit on this stream would lose jobs: it must be removed (D18).
        unbounded = {"max_msgs": -1, "max_bytes": -1, "max_age": 0, "discard": "old"}
        return config | {"retention": "workqueue", "sources": [source], **unbounded}

    def to_work(self) -> Config | None:
        """The log's durable consumer, which records what the work queue has sourced."""
        if not self.features.durable_sourcing:
            return None
        lanes = LANE_FILTERS if self.with_lanes else ()
        return {
            "name": TO_WORK,
            "durable_name": TO_WORK,
            "deliver_subject": self.work_delivery,
            "ack_policy": "flow_control",
            "flow_control": True,
            "idle_heartbeat": nanoseconds(timedelta(seconds=1)),
            "max_deliver": -1,
            "max_ack_pending": 1000,
            "filter_subjects": [*FILTERS, *lanes],
        }

    def advisories(self) -> Config:
        config = self._stream(ADVISORIES, [_MAX_DELIVERIES])
        return config | {"retention": "limits", "max_age": nanoseconds(_ADVISORY_AGE)}

    def keys(self) -> Config:
        # Created as a stream and not by a KV client, which would enable rollup: then any service
        # could delete the bucket's contents with one header (design D10).
        config = self._stream(KEYS, [f"$KV.{KEYS_BUCKET}.>"])
        return config | {
            "retention": "limits",
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_direct": True,
            "allow_rollup_hdrs": False,
        }

    def _foreign_keys(self, bucket: str) -> Config:
        """A bucket of another runtime: only the settings that our reads need are required."""
        config = self._stream(subjects.stream_of_bucket(bucket), [f"$KV.{bucket}.>"])
        return config | {"retention": "limits", "max_msgs_per_subject": 1, "allow_direct": True}

    def control(self) -> Config:
        """The newest value of each record through which processes coordinate (design D26).

        The server republishes each stored record of a worker. A copy of the write itself would not
        reach a worker whose account is not that of the operator.
        """
        config = self._stream(CONTROL, [subjects.ALL_CONTROL])
        config |= {
            "retention": "limits",
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_direct": True,
            "allow_rollup_hdrs": False,
            "republish": {
                "src": subjects.ALL_WORKERS,
                "dest": subjects.WORKER_HINT_FROM_TOKENS,
                "headers_only": True,
            },
        }
        if self.features.message_ttl:
            config["allow_msg_ttl"] = True
        return config

    def alarms(self, service: str) -> Config:
        """The alarms of one service: of its delayed jobs, and of its schedules (design D28).

        Each service has its own stream, because a stream with message schedules allows rollup: a
        service could delete all alarms of its stream with one header.
        """
        captured = [subjects.alarms_of_service(service), subjects.due_of_service(service)]
        config = self._stream(alarms_stream(service), captured)
        config |= {"retention": "workqueue", "discard": "old", "allow_direct": True}
        if self.features.message_ttl:
            config["allow_msg_ttl"] = True
        if self.features.message_schedules:
            config["allow_msg_schedules"] = True
        if self.features.fast_batches:
            config["allow_batched"] = True
        return config

    def _stream(self, name: str, captured: list[str]) -> Config:
        replicas = self.detected_replicas if self.replicas is None else self.replicas
        return {"name": name, "subjects": captured, "storage": "file", "num_replicas": replicas}


def delivery_subject(token: str) -> str:
    return f"{FIXED_DELIVERY}.{token}"


def alarms_stream(service: str) -> str:
    return f"{_ALARMS_PREFIX}{service}"


def is_alarms_stream(name: str) -> bool:
    return name.startswith(_ALARMS_PREFIX)


def service_of_alarms(name: str) -> str | None:
    """The service whose alarms a stream holds, or None for another stream."""
    return name.removeprefix(_ALARMS_PREFIX) if is_alarms_stream(name) else None


def due_consumer(service: str) -> Config:
    """The consumer that all worker processes of a service share: one of them gets each alarm."""
    return {
        "name": DUE_CONSUMER,
        "durable_name": DUE_CONSUMER,
        "filter_subject": subjects.due_of_service(service),
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "replay_policy": "instant",
        "ack_wait": nanoseconds(_ALARM_LEASE),
        "max_deliver": -1,
        "max_ack_pending": -1,
        "max_waiting": _MAX_WAITING_PULLS,
    }


def consumer_name(service: str, job_type: str) -> str:
    return f"{service}-{job_type}"


def consumer_of(service: str, queue: JobType[Any, Any]) -> str:
    return queue.consumer or consumer_name(service, queue.name)


def queue_consumer(service: str, queue: JobType[Any, Any]) -> Config:
    """The consumer of a queue. It has no `backoff`, which would replace ack_wait (design D4, D6).

    Waiting retries count as pending acknowledgements, so `max_ack_pending` is unlimited. On shared
    queues it is the queue's concurrency, as the other runtimes set it: they prefetch, and jobs
    whose lease expires in their buffers would run twice (8 of 60 jobs).

    Its metadata tell operators, who have not the service's code, what the queue takes.
    """
    # Imported here, because only workers and operators need it, and it is slow to import.
    from trellis_jobs.contract.consumer_metadata import metadata_of  # noqa: PLC0415

    name = consumer_of(service, queue)
    return {
        "name": name,
        "durable_name": name,
        "filter_subject": subjects.work_of_type(service, queue.name),
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "replay_policy": "instant",
        "ack_wait": nanoseconds(queue.ack_wait),
        "max_deliver": queue.delivery_limit or -1,
        "max_ack_pending": queue.concurrency if queue.shared else -1,
        "metadata": metadata_of(service, queue),
    }


def advisory_consumer() -> Config:
    """The consumer that all admin runtimes share, with the original runtime's settings."""
    return {
        "name": ADVISORY_CONSUMER,
        "durable_name": ADVISORY_CONSUMER,
        "filter_subject": _ANY_MAX_DELIVERIES,
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "ack_wait": nanoseconds(timedelta(seconds=30)),
        "max_deliver": -1,
        "max_ack_pending": 1000,
    }


def foreign_buckets(queues: Iterable[JobType[Any, Any]]) -> tuple[str, ...]:
    """The buckets of other runtimes in which these queues store their keys."""
    found = {queue.key_policy.bucket for queue in queues if queue.key_policy is not None}
    return tuple(sorted(found - {KEYS_BUCKET}))


def nanoseconds(duration: timedelta) -> int:
    return round(duration / timedelta(microseconds=1)) * 1000
