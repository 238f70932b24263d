"""How long a delivery waited for its key survives the wire; what is no such length is refused."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from tests.given import REPORT, started, status
from trellis_jobs.model import events as e
from trellis_jobs.model.job import Entry
from trellis_jobs.wire import events as wire
from trellis_jobs.wire.events import Undecodable


def written(event: e.Started) -> bytes:
    return wire.encode(event, status(state="active", tries=event.tries), None)


@pytest.mark.parametrize("waited", [timedelta(), timedelta(milliseconds=1), timedelta(days=400)])
def test_the_wait_is_read_back_to_the_millisecond(waited: timedelta) -> None:
    said = started(waited_for_key=waited)
    read = wire.decode(written(said), expected=REPORT, sequence=7)
    assert isinstance(read, Entry)
    assert read.event == said


def test_without_a_key_nothing_is_said_about_one() -> None:
    assert b"waitedForKey" not in written(started())


@pytest.mark.parametrize("nonsense", [-1, 1.5, "2", None, 10**17])
def test_what_is_no_length_of_time_makes_no_event(nonsense: object) -> None:
    body = {**json.loads(written(started())), "waitedForKeyMs": nonsense}
    read = wire.decode(json.dumps(body).encode(), expected=REPORT, sequence=7)
    assert isinstance(read, Undecodable)
    assert "waitedForKeyMs" in read.reason
