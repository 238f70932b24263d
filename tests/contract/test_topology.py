"""What the server is asked to hold, to the last field, for every server there is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from trellis_jobs.contract.consumer_metadata import contract_json
from trellis_jobs.contract.declaration import JobType
from trellis_jobs.contract.features import Features
from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.contract.topology import Topology, nanoseconds, queue_consumer

VERSIONS: Final = {0: "2.10.29", 1: "2.11.11", 2: "2.12.3", 4: "2.14.6", 5: "2.15.1"}
ENQUEUING: Final = ["trellis.jobs.*.*.*.created", "trellis.jobs.*.*.*.retried"]
IN_LANES: Final = ["trellis.jobs.*.*.*.*.created", "trellis.jobs.*.*.*.*.retried"]
FORMER_WORK: Final = "trellis.work.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"


def topology(level: int, **changes: Any) -> Topology:
    return Topology(Features(VERSIONS[level], level), **changes)


def log(level: int) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if level >= 1:
        extra["allow_msg_ttl"] = True
    if level >= 2:
        extra["allow_atomic"] = True
    if level >= 4:
        extra["allow_batched"] = True
    return {
        "name": "JOBS",
        "subjects": ["trellis.jobs.>"],
        "storage": "file",
        "num_replicas": 1,
        "retention": "limits",
        "allow_direct": True,
        "allow_rollup_hdrs": False,
        **extra,
    }


def work(level: int) -> dict[str, Any]:
    source: dict[str, Any] = {
        "name": "JOBS",
        "subject_transforms": [
            *({"src": src, "dest": "trellis.work.$1.$2.$3"} for src in ENQUEUING),
            *({"src": src, "dest": "trellis.work.$1.$2.$3.$4"} for src in IN_LANES),
        ],
    }
    if level >= 4:
        source["consumer"] = {"name": "to-work", "deliver_subject": "_src.jobs.work"}
    if level == 0:
        source["subject_transforms"] = [{"src": src, "dest": FORMER_WORK} for src in ENQUEUING]
    return {
        "name": "JOBS_WORK",
        "subjects": ["trellis.work.>"],
        "storage": "file",
        "num_replicas": 1,
        "retention": "workqueue",
        "sources": [source],
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "discard": "old",
    }


ADVISORIES: Final = {
    "name": "JOBS_ADVISORIES",
    "subjects": ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JOBS_WORK.>"],
    "storage": "file",
    "num_replicas": 1,
    "retention": "limits",
    "max_age": 604_800_000_000_000,
}
KEYS: Final = {
    "name": "KV_JOBS_KEYS",
    "subjects": ["$KV.JOBS_KEYS.>"],
    "storage": "file",
    "num_replicas": 1,
    "retention": "limits",
    "max_msgs_per_subject": 1,
    "discard": "new",
    "allow_direct": True,
    "allow_rollup_hdrs": False,
}


def control(level: int) -> dict[str, Any]:
    return {
        "name": "JOBS_CONTROL",
        "subjects": ["trellis.control.jobs.>"],
        "storage": "file",
        "num_replicas": 1,
        "retention": "limits",
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_direct": True,
        "allow_rollup_hdrs": False,
        "republish": {
            "src": "trellis.control.jobs.workers.*.*",
            "dest": "trellis.hints.jobs.workers.{{wildcard(1)}}.{{wildcard(2)}}",
            "headers_only": True,
        },
        **({"allow_msg_ttl": True} if level >= 1 else {}),
    }


TO_WORK: Final = {
    "name": "to-work",
    "durable_name": "to-work",
    "deliver_subject": "_src.jobs.work",
    "ack_policy": "flow_control",
    "flow_control": True,
    "idle_heartbeat": 1_000_000_000,
    "max_deliver": -1,
    "max_ack_pending": 1000,
    "filter_subjects": [*ENQUEUING, *IN_LANES],
}


@pytest.mark.parametrize("level", VERSIONS)
def test_the_streams_of_each_server_are_exactly_these_in_this_order(level: int) -> None:
    assert topology(level).streams() == (
        log(level),
        work(level),
        ADVISORIES,
        KEYS,
        control(level),
    )


@pytest.mark.parametrize("level", VERSIONS)
def test_the_server_remembers_what_it_has_sourced_where_it_can(level: int) -> None:
    assert topology(level).to_work() == (TO_WORK if level >= 4 else None)


@pytest.mark.parametrize("level", VERSIONS)
def test_the_source_of_an_older_installation_is_still_known_to_the_last_letter(level: int) -> None:
    """A server takes a source in other words for another one, and copies jobs again."""
    former = topology(level, with_lanes=False)
    [found] = former.work()["sources"]
    assert found["subject_transforms"] == [{"src": src, "dest": FORMER_WORK} for src in ENQUEUING]
    consumer = former.to_work()
    assert consumer is None or consumer["filter_subjects"] == ENQUEUING


@pytest.mark.parametrize("level", VERSIONS)
def test_no_stream_of_ours_can_be_wiped_by_one_header_of_a_service(level: int) -> None:
    for stream in topology(level).streams():
        assert not stream.get("allow_rollup_hdrs", False)
        assert "allow_msg_schedules" not in stream


@pytest.mark.parametrize(
    ("asked", "detected", "replicas"), [(None, 1, 1), (None, 3, 3), (1, 3, 1), (5, 1, 5)]
)
def test_replicas_are_what_was_requested_else_what_was_detected(
    asked: int | None, detected: int, replicas: int
) -> None:
    made = topology(5, replicas=asked, detected_replicas=detected).streams()
    assert {stream["num_replicas"] for stream in made} == {replicas}


def queue(**options: Any) -> JobType[Any, Any]:
    return JobType(
        name="sync-tickets", payload=PayloadType(int), result=PayloadType(int), **options
    )


def test_the_consumer_of_a_queue_is_exactly_this() -> None:
    assert queue_consumer("helpdesk", queue()) == {
        "name": "helpdesk-sync-tickets",
        "durable_name": "helpdesk-sync-tickets",
        "filter_subject": "trellis.work.helpdesk.sync-tickets.*",
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "replay_policy": "instant",
        "ack_wait": 30_000_000_000,
        "max_deliver": -1,
        "max_ack_pending": -1,
        "metadata": {"trellis.contract": contract_json("helpdesk", queue())},
    }


def test_a_consumer_has_a_delivery_limit_only_if_its_queue_asked_for_one() -> None:
    assert queue_consumer("helpdesk", queue(delivery_limit=7))["max_deliver"] == 7


def test_a_consumer_never_has_a_backoff_which_would_replace_its_ack_wait() -> None:
    assert "backoff" not in queue_consumer("helpdesk", queue())


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (timedelta(microseconds=1), 1000),
        (timedelta(seconds=0.1), 100_000_000),
        (timedelta(days=7), 604_800_000_000_000),
    ],
)
def test_durations_are_exact_in_nanoseconds(duration: timedelta, expected: int) -> None:
    assert nanoseconds(duration) == expected


@pytest.mark.parametrize(
    ("level", "lacking"),
    [
        (
            0,
            [
                "guarded appends",
                "message TTL",
                "consumer pause",
                "atomic batches",
                "message schedules",
                "fast batches",
                "durable sourcing",
            ],
        ),
        (1, ["atomic batches", "message schedules", "fast batches", "durable sourcing"]),
        (2, ["fast batches", "durable sourcing"]),
        (3, ["fast batches", "durable sourcing"]),
        (4, []),
        (5, []),
        (99, []),
    ],
)
def test_a_server_is_told_what_it_lacks_and_what_that_means(level: int, lacking: list[str]) -> None:
    said = Features("2.x", level).lacks()
    assert [line.split(" (")[0] for line in said] == lacking
    assert all("(2.1" in line and ": " in line for line in said)


@pytest.mark.parametrize("level", VERSIONS)
def test_features_come_with_the_version_that_brought_them(level: int) -> None:
    features = Features(VERSIONS[level], level)
    assert (features.guarded_appends, features.message_ttl) == (level >= 1, level >= 1)
    assert (features.atomic_batches, features.fast_batches) == (level >= 2, level >= 4)
    assert features.durable_sourcing == (level >= 4)
