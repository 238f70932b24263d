"""What strangers leave in the streams is removed after a time, and no event ever is.

Reproduction: 41,000 hostile messages under a service's own subjects stayed in the log for ever.
Each event under `trellis.jobs.workers.<a>.<b>.created` became a work message that no worker reads.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from jobs_admin.retention_policy import RetentionPolicy, parse, standard
from tests import given
from tests.admin.upkeep_lab import looking_after, producer, until_swept, worker
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.wire import events as wire
from trellis_jobs.wire.junk import is_junk

JOB = subjects.of_job(given.REPORT)
ABOUT = {
    "service": given.REPORT.service,
    "jobType": given.REPORT.job_type,
    "jobId": given.REPORT.job_id,
}
NOW = RetentionPolicy(standard().ages, junk=timedelta(0))


@for_all(given.histories())
def test_no_event_of_any_history_is_junk(history: list[Any]) -> None:
    status: JobStatus | None = None
    for sequence, event in enumerate(history, start=1):
        after = advance(status, event)
        if isinstance(after, Illegal):
            continue
        subject = subjects.lifecycle(event.job, event.kind)
        assert not is_junk(subject, wire.encode(event, after, None), {})
        status = after.recorded_at(sequence)


@for_all(
    kind=st.sampled_from(["scheduled", "paused", "x"]), more=st.dictionaries(st.text(), st.none())
)
def test_an_event_that_a_newer_version_may_write_is_not_junk(kind: str, more: Any) -> None:
    body = orjson.dumps({**more, **ABOUT, "eventType": kind})
    assert not is_junk(f"{JOB}.{kind}", body, {})
    assert not is_junk(f"{JOB}.p1.{kind}", body, {})


@pytest.mark.parametrize(
    ("subject", "data", "headers"),
    [
        (f"{JOB}.progress", b"rubbish", {}),
        (f"{JOB}.progress", b"[1]", {}),
        (f"{JOB}.unknown", orjson.dumps({**ABOUT, "jobId": "another"}), {}),
        (f"{JOB}.unknown", orjson.dumps(ABOUT), {"Nats-Stream": "JOBS", "Nats-Sequence": "1"}),
        (f"{JOB}.p1.created", orjson.dumps({**ABOUT, "jobId": "another"}), {}),
        (f"{JOB}.p1.created.more", orjson.dumps(ABOUT), {}),
        ("trellis.jobs.workers.a.b.created", orjson.dumps(ABOUT), {}),
        ("trellis.jobs.a", orjson.dumps(ABOUT), {}),
    ],
)
def test_what_no_version_can_have_written_is_junk(
    subject: str, data: bytes, headers: dict[str, str]
) -> None:
    assert is_junk(subject, data, headers)


def test_how_long_junk_is_kept_is_part_of_the_retention() -> None:
    assert standard().junk == timedelta(days=7)
    assert parse("others=12h").junk == timedelta(days=7)
    assert parse("keep-all").junk is None
    policy = parse("completed=2d,junk=1d")
    assert policy.junk == timedelta(days=1)
    assert parse(str(policy)) == policy


async def publish(raw: Probe, *messages: str) -> None:
    for subject in messages:
        await raw.connection.request(subject, b"rubbish", timeout=5)


async def held(raw: Probe, stream: str) -> dict[str, int]:
    """How many messages are under each subject."""
    asked = {"subjects_filter": ">"}
    info = await api.request(raw.connection, f"STREAM.INFO.{stream}", asked)
    return dict(info["state"].get("subjects") or {})


async def test_junk_is_removed_and_every_event_stays(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.plain.create(Task())
        created, progress = (
            subjects.lifecycle(ref.address, kind)
            for kind in (EventKind.CREATED, EventKind.PROGRESS)
        )
        await publish(raw, *[progress] * 3, "trellis.jobs.ward.plain.none.unknown", created)
        await publish(
            raw, "trellis.jobs.workers.ward.x.created", "trellis.jobs.ward.deep.er.and.er"
        )

        async def only_events_are_left() -> bool:
            # The one after the job's event under the same subject stays until the job is removed.
            is_clean = await held(raw, "JOBS") == {created: 2}
            return is_clean and list(await held(raw, "JOBS_WORK")) == [subjects.work(ref.address)]

        path = tmp_path / "jobs.sqlite"
        often = timedelta(seconds=0.1)
        async with looking_after(server.url, path, retention=NOW, retention_interval=often):
            await until(only_events_are_left, "the junk is gone")
            async with worker(server.url, "plain"):
                assert (await ref.wait(timeout=20)).tries == 1
        assert await raw.kinds(ref) == ["created", "started", "completed"]


async def test_junk_is_kept_for_its_time(server: EmbeddedServer, tmp_path: Path) -> None:
    async with producer(server.url), probe(server.url) as raw:
        await publish(raw, "trellis.jobs.ward.plain.none.unknown")
        often = timedelta(seconds=0.1)
        async with looking_after(
            server.url, tmp_path / "jobs.sqlite", retention_interval=often
        ) as daemon:
            await until_swept(daemon, "junk", times=3)
        assert await held(raw, "JOBS") == {"trellis.jobs.ward.plain.none.unknown": 1}
