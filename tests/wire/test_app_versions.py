"""The version of the worker's application survives the wire."""

from __future__ import annotations

import json

import pytest

from tests.given import REPORT, created, log, started, status
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import jobs
from trellis_jobs.wire.events import Undecodable
from trellis_jobs.wire.fields import dumps


def written(version: str | None) -> bytes:
    event = started(app_version=version)
    return wire.encode(event, status(state="active", tries=1), None)


@pytest.mark.parametrize("version", ["1.4.2", "v" * 200, "é 1"])
def test_the_version_is_read_back(version: str) -> None:
    read = wire.decode(written(version), expected=REPORT, sequence=7)
    assert isinstance(read, Entry)
    assert read.event == started(app_version=version)
    job = fold(log(created(), started(app_version=version)))
    assert job is not None
    assert jobs.from_json(json.loads(dumps(jobs.to_json(job)))).run.app_version == version


def test_a_worker_without_a_version_writes_no_byte_of_it() -> None:
    assert b"appVersion" not in written(None)


@pytest.mark.parametrize("wrong", [1, ["1"], "v" * 201])
def test_other_values_make_no_event(wrong: object) -> None:
    body = {**json.loads(written(None)), "appVersion": wrong}
    read = wire.decode(json.dumps(body).encode(), expected=REPORT, sequence=7)
    assert isinstance(read, Undecodable)
    assert "appVersion" in read.reason
