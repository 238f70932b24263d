"""What a queue says about keys: checked where it is written, and the rest derived."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from trellis_jobs.contract.key_policy import (
    KeyConcurrency,
    KeyPolicy,
    QueueDepth,
    resolve,
)
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.keys.backlog import WhenFull
from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.template import KeyTemplate

HALF_A_MINUTE = timedelta(seconds=30)
ACK_WAITS = st.timedeltas(timedelta(seconds=0.1), timedelta(hours=12))


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def keyed(
    depth: QueueDepth | None = None, ack_wait: timedelta = HALF_A_MINUTE, **options: Any
) -> KeyPolicy:
    key = KeyConcurrency(**({"key": ["tickets", "/origin"]} | options))
    found = resolve(key, depth, ack_wait)
    assert found is not None
    return found


def test_a_queue_without_a_key_has_no_keying() -> None:
    assert resolve(None, None, HALF_A_MINUTE) is None


def test_what_is_not_said_is_the_default_of_the_design() -> None:
    assert keyed() == KeyPolicy(
        template=KeyTemplate(("tickets", "/origin")),
        max_active=1,
        heartbeat_interval=seconds(10),
        heartbeat_ttl=seconds(60),
        stale_policy=StalePolicy.FAIL_STALE,
        max_queued=0,
        when_full=WhenFull.REJECT,
    )


@pytest.mark.parametrize(
    ("ack_wait", "interval", "ttl"),
    [(0.3, 0.1, 0.6), (3, 1, 6), (30, 10, 60), (90, 30, 180), (300, 30, 600)],
)
def test_a_lease_is_renewed_with_the_ack_deadline_and_lasts_twice_as_long(
    ack_wait: float, interval: float, ttl: float
) -> None:
    found = keyed(ack_wait=seconds(ack_wait))
    assert (found.heartbeat_interval, found.heartbeat_ttl) == (seconds(interval), seconds(ttl))


@forall(ACK_WAITS)
def test_whatever_the_ack_wait_the_derived_lease_outlives_missed_renewals(
    ack_wait: timedelta,
) -> None:
    found = keyed(ack_wait=ack_wait)
    assert found.heartbeat_interval == min(HALF_A_MINUTE, ack_wait / 3)
    assert found.heartbeat_ttl >= 2 * ack_wait
    assert found.heartbeat_ttl >= 3 * found.heartbeat_interval


@pytest.mark.parametrize("interval", [25, 25.0, timedelta(seconds=25)], ids=repr)
def test_a_longer_interval_makes_the_derived_lease_longer(interval: float | timedelta) -> None:
    found = keyed(heartbeat_interval=interval)
    assert (found.heartbeat_interval, found.heartbeat_ttl) == (seconds(25), seconds(75))


def test_what_is_said_is_kept() -> None:
    depth = QueueDepth(max_queued_per_key=2, when_full="replace-oldest")
    assert keyed(
        depth,
        key=("a", "/b"),
        max_active=3,
        heartbeat_interval=5,
        heartbeat_ttl=timedelta(minutes=5),
        stale_policy="block",
    ) == KeyPolicy(
        template=KeyTemplate(("a", "/b")),
        max_active=3,
        heartbeat_interval=seconds(5),
        heartbeat_ttl=seconds(300),
        stale_policy=StalePolicy.BLOCK,
        max_queued=2,
        when_full=WhenFull.REPLACE_OLDEST,
    )


@pytest.mark.parametrize("policy", [*StalePolicy, *(each.value for each in StalePolicy)])
def test_a_stale_policy_is_named_by_its_word_or_its_constant(policy: str) -> None:
    assert keyed(stale_policy=policy).stale_policy is StalePolicy(policy)


@pytest.mark.parametrize("word", [*WhenFull, *(each.value for each in WhenFull)])
def test_what_happens_when_full_is_named_by_its_word_or_its_constant(word: str) -> None:
    assert keyed(QueueDepth(when_full=word)).when_full is WhenFull(word)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": []}, "at least one segment"),
        ({"key": ["a", ""]}, "segment cannot be empty"),
        ({"key": ["/a~2"]}, "'/a~2' has a bad escape"),
        ({"key": "tickets"}, "key must be a list of segments, found 'tickets'"),
        ({"key": ["a", 42]}, "found 42"),
        ({"max_active": 0}, "max_active must be at least 1, is 0"),
        ({"max_active": -1}, "max_active must be at least 1, is -1"),
        ({"max_active": 1.5}, "max_active must be a whole number, is 1.5"),
        ({"max_active": True}, "max_active must be a whole number, is True"),
        ({"heartbeat_interval": 0}, "heartbeat_interval must be positive"),
        ({"heartbeat_interval": -5}, "heartbeat_interval must be positive"),
        ({"heartbeat_ttl": timedelta()}, "heartbeat_ttl must be positive"),
        ({"heartbeat_ttl": 59}, "heartbeat_ttl (0:00:59) must be at least twice ack_wait"),
        (
            {"heartbeat_ttl": 60, "heartbeat_interval": 60},
            "heartbeat_ttl (0:01:00) must be at least three times heartbeat_interval (0:01:00)",
        ),
        (
            {"heartbeat_ttl": 74, "heartbeat_interval": 25},
            "heartbeat_ttl (0:01:14) must be at least three times heartbeat_interval (0:00:25)",
        ),
        ({"stale_policy": "fail"}, "stale_policy must be one of 'fail-stale', 'block'"),
        ({"stale_policy": "FAIL-STALE"}, "found 'FAIL-STALE'"),
    ],
    ids=str,
)
def test_a_key_that_cannot_work_is_refused_and_the_culprit_named(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        keyed(**options)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("depth", "complaint"),
    [
        ({"max_queued_per_key": -1}, "max_queued_per_key cannot be negative, is -1"),
        (
            {"max_queued_per_key": 1001},
            "max_queued_per_key can be at most 1000, is 1001: all jobs of a key",
        ),
        ({"max_queued_per_key": 0.5}, "max_queued_per_key must be a whole number, is 0.5"),
        ({"when_full": "drop"}, "when_full must be one of 'reject', 'coalesce', 'replace-oldest'"),
        ({"when_full": ""}, "found ''"),
    ],
    ids=str,
)
def test_a_depth_that_cannot_work_is_refused_and_the_culprit_named(
    depth: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        keyed(QueueDepth(**depth))
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"max_active": 1},
        {"heartbeat_ttl": 60},
        {"heartbeat_ttl": 75, "heartbeat_interval": 25},
        {"key": ["/"]},
    ],
    ids=str,
)
def test_the_smallest_key_that_works_is_accepted(options: dict[str, Any]) -> None:
    assert keyed(**options).max_active == 1


def test_the_longest_queue_that_fits_one_value_is_accepted() -> None:
    assert keyed(QueueDepth(max_queued_per_key=1000)).max_queued == 1000


def test_a_depth_without_a_key_to_count_by_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"QueueDepth.* needs key=KeyConcurrency"):
        resolve(None, QueueDepth(max_queued_per_key=1), HALF_A_MINUTE)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": ["/origin"]}, r"key must be KeyConcurrency\("),
        ({"key": "/origin"}, r"key must be KeyConcurrency\("),
        ({"key": KeyConcurrency(5)}, "key must be a list of segments"),  # type: ignore[arg-type]
        (
            {"key": KeyConcurrency(["/origin"], heartbeat_interval="5s")},  # type: ignore[arg-type]
            "heartbeat_interval must be seconds",
        ),
        ({"key": KeyConcurrency(["/origin"]), "queue": 1}, r"queue must be QueueDepth\("),
    ],
)
def test_what_is_no_key_and_no_depth_is_named_at_declaration(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        resolve(options["key"], options.get("queue"), timedelta(seconds=30))
