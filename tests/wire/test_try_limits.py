"""A job's own time limits survive the wire; other values of them make no event."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.given import REPORT, created, failed, log, retried, started, status
from trellis_jobs.model import events as e
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.model.try_limits import TryLimits
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import jobs
from trellis_jobs.wire.events import Undecodable
from trellis_jobs.wire.fields import dumps

SHORT, LONG = timedelta(milliseconds=1), timedelta(days=36_525)


def written(event: e.Begun) -> bytes:
    return wire.encode(event, status(state="pending", tries=0), None)


@pytest.mark.parametrize("begun", [created, retried])
@pytest.mark.parametrize(
    "limits", [TryLimits(SHORT), TryLimits(LONG, SHORT), TryLimits(None, LONG)]
)
def test_the_limits_of_a_job_are_read_back(begun: Any, limits: TryLimits) -> None:
    event = begun(try_limits=limits)
    read = wire.decode(written(event), expected=REPORT, sequence=7)
    assert isinstance(read, Entry)
    assert read.event == event


@pytest.mark.parametrize("begun", [created, retried])
def test_a_job_without_its_own_limits_has_no_byte_of_them(begun: Any) -> None:
    assert not {"timeoutMs", "visibilityMs"} & json.loads(written(begun())).keys()


@pytest.mark.parametrize("name", ["timeoutMs", "visibilityMs"])
@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None, True, 10**17])
def test_other_values_make_no_event(name: str, wrong: object) -> None:
    body = {**json.loads(written(created())), name: wrong}
    read = wire.decode(json.dumps(body).encode(), expected=REPORT, sequence=7)
    assert isinstance(read, Undecodable)
    assert name in read.reason


def test_the_projection_keeps_the_limits_of_every_run() -> None:
    first, second = TryLimits(SHORT), TryLimits(LONG, SHORT)
    job = fold(log(created(try_limits=first), started(), failed(), retried(try_limits=second)))
    assert job is not None
    read = jobs.from_json(json.loads(dumps(jobs.to_json(job))))
    assert read.run.try_limits == second
    assert [run.try_limits for run in read.earlier_runs] == [first]
