"""A service declares its queues; what cannot work is refused there, by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from trellis_jobs import Jobs, KeyConcurrency, QueueDepth, Service, job
from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.errors import DeclarationError
from trellis_jobs.service.queue import Queue


class SyncTickets(BaseModel):
    origin: str


KEYED = KeyConcurrency(["tickets", "/origin"])


def declaring(**options: Any) -> type[Jobs]:
    class HelpdeskJobs(Jobs, service="helpdesk"):
        sync_tickets = job(SyncTickets, int, **options)

    return HelpdeskJobs


def queue_with(**options: Any) -> JobType[Any, Any]:
    return declaring(**options).contract.queues["sync-tickets"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": "sync.tickets"}, "queue name 'sync.tickets' is not a valid subject token"),
        ({"name": "sync tickets"}, "queue name 'sync tickets' is not a valid subject token"),
        ({"name": "*"}, "'*'"),
        ({"concurrency": 0}, "concurrency must be at least 1, is 0"),
        ({"max_deliver": 0}, "max_deliver must be at least 1, is 0"),
        ({"backoff": [5, -1]}, "backoff cannot be negative"),
        ({"backoff": [float("nan")]}, "NaN"),
        ({"ack_wait": 0.05}, "ack_wait must be at least 0.1 s"),
        ({"ack_wait": timedelta()}, "ack_wait must be at least 0.1 s"),
        ({"delivery_limit": 0}, "delivery_limit must be at least 1"),
        ({"timeout": 0}, "timeout must be more than 0 seconds"),
        ({"timeout": -1}, "timeout must be more than 0 seconds"),
        ({"deadline": timedelta()}, "deadline must be more than 0 seconds"),
        ({"retries": 3}, "unknown option 'retries'; the options are ack_wait, backoff"),
        ({"backoff": 5}, "backoff must be a list, is 5"),
        ({"backoff": "5"}, "backoff must be a list, is '5'"),
        ({"backoff": ["5"]}, "backoff must be seconds or a timedelta, is '5'"),
        ({"backoff": None}, "backoff must be a list, is None"),
        ({"ack_wait": "30s"}, "ack_wait must be seconds or a timedelta, is '30s'"),
        ({"ack_wait": None}, "ack_wait must be seconds or a timedelta, is None"),
        ({"timeout": [1]}, "timeout must be seconds or a timedelta, is [1]"),
        ({"deadline": 1e300}, "deadline must be seconds or a timedelta, is 1e+300"),
        ({"concurrency": True}, "concurrency must be a whole number, is True"),
        ({"concurrency": 2.5}, "concurrency must be a whole number, is 2.5"),
        ({"concurrency": "4"}, "concurrency must be a whole number, is '4'"),
        ({"max_deliver": 3.0}, "max_deliver must be a whole number, is 3.0"),
        ({"max_deliver": None}, "max_deliver must be a whole number, is None"),
        ({"delivery_limit": True}, "delivery_limit must be a whole number, is True"),
        ({"permanent": KeyError}, "permanent must be a list, is <class 'KeyError'>"),
        ({"permanent": ["KeyError"]}, "permanent must contain exception classes, is ('KeyError',)"),
        ({"permanent": [KeyError()]}, "permanent must contain exception classes"),
        ({"permanent": [int]}, "permanent must contain exception classes"),
        ({"name": 5}, "name must be text, is 5"),
        ({"key": KeyConcurrency([])}, "a key needs at least one segment"),
        ({"key": KeyConcurrency(["/origin~2"])}, "key pointer '/origin~2' has a bad escape"),
        ({"key": KeyConcurrency("/origin")}, "key must be a list of segments, found '/origin'"),
        ({"key": KeyConcurrency(["a"], max_active=0)}, "max_active must be at least 1, is 0"),
        (
            {"key": KeyConcurrency(["a"], heartbeat_ttl=59)},
            "heartbeat_ttl (0:00:59) must be at least twice ack_wait (0:00:30)",
        ),
        ({"key": KeyConcurrency(["a"], stale_policy="wait")}, "stale_policy must be one of"),
        (
            {"key": KEYED, "queue": QueueDepth(max_queued_per_key=-1)},
            "max_queued_per_key cannot be negative, is -1",
        ),
        ({"key": KEYED, "queue": QueueDepth(when_full="drop")}, "when_full must be one of"),
        ({"queue": QueueDepth(1)}, "queue=QueueDepth(...) needs key=KeyConcurrency(...)"),
    ],
    ids=str,
)
def test_a_queue_that_cannot_work_is_refused_and_the_culprit_named(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declaring(**options)
    assert complaint in str(refused.value)
    assert "HelpdeskJobs.sync_tickets: " in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 1},
        {"max_deliver": 1},
        {"backoff": [0]},
        {"backoff": []},
        {"ack_wait": 0.1},
        {"delivery_limit": 1},
        {"timeout": 0.001},
    ],
    ids=str,
)
def test_the_smallest_queue_that_works_is_accepted(options: dict[str, Any]) -> None:
    assert queue_with(**options).name == "sync-tickets"


def test_a_payload_that_json_cannot_carry_is_refused_and_the_culprit_named() -> None:
    class Opaque:
        pass

    with pytest.raises(DeclarationError, match=r"ToolJobs\.use: .*Opaque"):

        class ToolJobs(Jobs, service="tools"):
            use = job(Opaque)


def test_two_queues_of_one_name_are_refused() -> None:
    with pytest.raises(DeclarationError, match="TwinJobs declares queue 'sync' twice"):

        class TwinJobs(Jobs, service="twins"):
            sync = job(int)
            other = job(int, name="sync")


@pytest.mark.parametrize("service", ["workers", "help.line", "help line", "", ">"])
def test_a_service_name_that_cannot_be_one_is_refused(service: str) -> None:
    with pytest.raises(DeclarationError, match="service"):

        class AnyJobs(Jobs, service=service):
            pass


def test_a_service_without_queues_is_allowed_to_exist() -> None:
    class IdleJobs(Jobs, service="idle"):
        pass

    assert IdleJobs.contract == ServiceContract("idle", {})


def test_a_queue_is_called_after_its_attribute_unless_it_says_otherwise() -> None:
    assert list(declaring().contract.queues) == ["sync-tickets"]
    assert list(declaring(name="Sync_2").contract.queues) == ["Sync_2"]


def test_inherited_queues_belong_to_the_service_too() -> None:
    class BaseJobs(Jobs, service="base"):
        ping = job(int)

    class MoreJobs(BaseJobs, service="more"):
        pong = job(int)

    assert set(MoreJobs.contract.queues) == {"ping", "pong"}
    assert set(BaseJobs.contract.queues) == {"ping"}


def test_a_declaration_outside_a_jobs_class_says_what_is_missing() -> None:
    with pytest.raises(DeclarationError, match="attribute of a Jobs class"):
        _ = job(int).type


def test_on_the_class_it_is_a_declaration_on_the_service_a_queue() -> None:
    class HelpdeskJobs(Jobs, service="helpdesk"):
        sync_tickets = job(SyncTickets, int)

    assert isinstance(HelpdeskJobs.sync_tickets, JobType)
    assert isinstance(Service(HelpdeskJobs).jobs.sync_tickets, Queue)
    assert Service(HelpdeskJobs).jobs.sync_tickets.type is HelpdeskJobs.sync_tickets


def test_a_queue_has_one_handler_and_a_second_one_is_told_about_the_first() -> None:
    class HelpdeskJobs(Jobs, service="helpdesk"):
        sync_tickets = job(SyncTickets)

    service = Service(HelpdeskJobs)

    async def first(_: Any) -> None: ...
    async def second(_: Any) -> None: ...

    service.jobs.sync_tickets.handle(first)
    with pytest.raises(
        DeclarationError,
        match=r"'sync-tickets' already has the handler .*first, not .*second",
    ):
        service.jobs.sync_tickets.handle(second)


@pytest.mark.parametrize("duration", [2.5, timedelta(seconds=2.5)])
@pytest.mark.parametrize(
    ("option", "read"),
    [
        ("ack_wait", lambda queue: queue.ack_wait),
        ("timeout", lambda queue: queue.timeout),
        ("deadline", lambda queue: queue.deadline),
    ],
)
def test_durations_are_seconds_or_timedelta(
    option: str, read: Callable[[JobType[Any, Any]], timedelta], duration: float | timedelta
) -> None:
    assert read(queue_with(**{option: duration})) == timedelta(seconds=2.5)


def test_what_is_not_said_is_the_default_of_the_design() -> None:
    plain = queue_with()
    assert (plain.concurrency, plain.retry.max_tries) == (1, 5)
    assert [delay.total_seconds() for delay in plain.retry.delays] == [5, 30, 120, 600, 1800]
    assert plain.ack_wait == timedelta(seconds=30)
    assert (plain.timeout, plain.deadline, plain.delivery_limit) == (None, None, None)
    assert plain.progress
    assert plain.logs
    assert plain.dead_letters
    assert not plain.shared
    assert plain.permanent == ()


def test_a_manifest_lists_queues_by_name_and_durations_in_milliseconds() -> None:
    contract = ServiceContract(
        "helpdesk",
        {
            name: JobType(
                name=name,
                payload=PayloadType(int),
                result=PayloadType(type(None)),
                ack_wait=timedelta(seconds=1.5),
            )
            for name in ("b", "a")
        },
    )
    manifest = to_manifest(contract)
    assert list(manifest["jobs"]) == ["a", "b"]
    assert manifest["jobs"]["a"]["ackWaitMs"] == 1500
    assert manifest["format"] == "trellis.jobs.service@v1"


def test_only_what_was_declared_is_in_the_manifest() -> None:
    optional = {"defaultDeadlineMs", "timeoutMs", "deliveryLimit", "shared"}
    keyed = {"keyConcurrency", "queue"}
    plain = to_manifest(declaring().contract)["jobs"]["sync-tickets"]
    full = to_manifest(declaring(deadline=1, timeout=2, delivery_limit=3, shared=True).contract)[
        "jobs"
    ]["sync-tickets"]
    assert not (optional | keyed) & plain.keys()
    assert {name: full[name] for name in optional} == {
        "defaultDeadlineMs": 1000,
        "timeoutMs": 2000,
        "deliveryLimit": 3,
        "shared": True,
    }


def test_a_manifest_says_what_a_queue_does_with_its_keys_in_full_and_in_milliseconds() -> None:
    short = to_manifest(declaring(key=KEYED, ack_wait=1.5).contract)["jobs"]["sync-tickets"]
    assert short["keyConcurrency"] == {
        "key": ["tickets", "/origin"],
        "maxActive": 1,
        "heartbeatIntervalMs": 500,
        "heartbeatTtlMs": 3000,
        "stalePolicy": "fail-stale",
    }
    assert short["queue"] == {"maxQueuedPerKey": 0, "whenFull": "reject", "whenDue": "wait"}
    key = KeyConcurrency(
        ["/origin"],
        max_active=3,
        heartbeat_interval=5,
        heartbeat_ttl=timedelta(minutes=5),
        stale_policy="block",
    )
    depth = QueueDepth(max_queued_per_key=7, when_full="replace-oldest", when_due="when-full")
    full = to_manifest(declaring(key=key, queue=depth).contract)["jobs"]["sync-tickets"]
    assert full["keyConcurrency"] == {
        "key": ["/origin"],
        "maxActive": 3,
        "heartbeatIntervalMs": 5000,
        "heartbeatTtlMs": 300_000,
        "stalePolicy": "block",
    }
    assert full["queue"] == {
        "maxQueuedPerKey": 7,
        "whenFull": "replace-oldest",
        "whenDue": "when-full",
    }


def test_a_queue_has_no_keys_unless_it_says_so() -> None:
    assert queue_with().key_policy is None
    assert queue_with(key=None, queue=None).key_policy is None
    assert queue_with(key=KEYED).key_policy is not None
