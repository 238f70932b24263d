"""The rules of the webhooks example: when to wait, when to give up, and what is genuine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from examples.webhooks.app import LONGEST_WAIT, Refused, raise_for_status
from examples.webhooks.http_post import Answer
from examples.webhooks.retry_after import seconds_to_wait
from examples.webhooks.signature import is_genuine, sign
from trellis_jobs import Fail, Retry

OURS = "a secret"
NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        ("Sat, 28 Mar 2026 12:00:30 GMT", 30),
        ("Sat, 28 Mar 2026 11:00:00 GMT", 0),
        ("Sat, 28 Mar 2026 12:00:30 -0000", None),
        ("soon", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_to_wait(header, NOON) == seconds


def test_what_the_receiver_answers_decides() -> None:
    raise_for_status(Answer(204), NOON)
    with pytest.raises(Fail):
        raise_for_status(Answer(410, retry_after="5"), NOON)
    with pytest.raises(Refused):
        raise_for_status(Answer(500), NOON)
    with pytest.raises(Retry) as patient:
        raise_for_status(Answer(503, retry_after="5"), NOON)
    assert patient.value.after == timedelta(seconds=5)


def test_no_delivery_waits_for_ever() -> None:
    with pytest.raises(Retry) as patient:
        raise_for_status(Answer(429, retry_after="99999999"), NOON)
    assert patient.value.after == timedelta(seconds=LONGEST_WAIT)


def test_a_signature_is_of_this_message_and_this_secret() -> None:
    headers = sign(b"{}", message_id="01J", at=1, secret=OURS)
    assert is_genuine(b"{}", headers, OURS)
    assert not is_genuine(b"{ }", headers, OURS)
    assert not is_genuine(b"{}", headers, "theirs")
    assert not is_genuine(b"{}", {**headers, "webhook-id": "01K"}, OURS)
    assert not is_genuine(b"{}", {}, OURS)
