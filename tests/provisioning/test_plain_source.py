"""A source from before 2.14 gets lanes, and no job is lost that it is copying meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import pytest

from tests.provisioning.work_queue import apply, set_sources, work
from tests.support.facts import until
from tests.support.former_installation import SOURCE, install
from tests.support.lab import Probe, probe, producer
from tests.support.servers import NEWEST, start_version
from trellis_jobs.contract.features import Features
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.plain_source import is_up
from trellis_jobs.jetstream.setup.plan import Act, plan_streams

AT_ONCE: Final = 200
[WITH_LANES] = Topology(Features("2.12.8", 2)).work()["sources"]


async def with_lanes(raw: Probe) -> bool:
    return bool((await work(raw))["config"]["sources"] == [WITH_LANES])


async def report_copies(raw: Probe) -> None:
    config = (await work(raw))["config"]
    config["republish"] = {"src": "trellis.work.>", "dest": "copied.>"}
    await api.request(raw.connection, "STREAM.UPDATE.JOBS_WORK", config)


@pytest.mark.parametrize("version", ["2.11.11", "2.12.8", NEWEST])
async def test_no_job_is_lost_while_thousands_are_created_and_finished(version: str) -> None:
    """With an update alone the server lost up to 1,010 of 50,600, in 7 of 18 tries."""
    with start_version(version) as server:
        async with probe(server.url) as raw, probe(server.url) as operator:
            await install(raw, plain=True)
            await report_copies(raw)
            copies: Counter[str] = Counter()
            await raw.connection.subscribe(
                "copied.>", lambda message: copies.update([message.subject.rpartition(".")[2]])
            )
            created, is_over = Counter[str](), asyncio.Event()
            busy = [create_jobs(raw, str(n), created, is_over) for n in range(2)]
            tasks = [asyncio.create_task(each) for each in (*busy, finish_jobs(raw, is_over))]
            await until(lambda: len(created) > 20 * AT_ONCE, "jobs come")
            await apply(operator)
            assert await with_lanes(raw)
            already = len(created)
            await until(lambda: len(created) > already + 20 * AT_ONCE, "jobs come after it")
            is_over.set()
            await asyncio.gather(*tasks)
            await until(lambda: not created.keys() - copies.keys(), "every job was copied")


async def create_jobs(
    raw: Probe, prefix: str, created: Counter[str], is_over: asyncio.Event
) -> None:
    while not is_over.is_set():
        ids = [f"{prefix}-{len(created) + n}" for n in range(AT_ONCE)]
        subjects = [f"trellis.jobs.lab.work.{each}.created" for each in ids]
        await asyncio.gather(
            *(raw.connection.request(each, b"{}", timeout=10) for each in subjects)
        )
        created.update(ids)


async def finish_jobs(raw: Probe, is_over: asyncio.Event) -> None:
    """Like workers that are quick: the queue is empty again and again."""
    while not is_over.is_set():
        await api.request(raw.connection, "STREAM.PURGE.JOBS_WORK")


async def test_the_next_operator_finishes_what_was_interrupted(server: EmbeddedServer) -> None:
    """A server that restarts would begin at the sequence again, and copy all jobs since then."""
    async with probe(server.url) as raw:
        await install(raw, plain=True)
        await set_sources(raw, WITH_LANES | {"opt_start_seq": 1})
        async with producer(server.url):
            changes = await plan_streams(raw.connection, Topology(raw.features))
        [hint] = [each for change in changes for each in change.details]
        assert hint == (
            "a change of its source was interrupted: `trellis-jobs infra apply` finishes it"
        )
        assert {change.act for change in changes} == {Act.KEPT}
        await apply(raw)
        assert await with_lanes(raw)
        assert (await apply(raw)).is_unchanged


async def test_other_settings_are_updated_as_well(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        await install(raw, plain=True)
        config = (await work(raw))["config"] | {"max_msgs": 10}
        await api.request(raw.connection, "STREAM.UPDATE.JOBS_WORK", config)
        await apply(raw)
        assert await with_lanes(raw)
        assert (await work(raw))["config"]["max_msgs"] == -1
        assert (await apply(raw)).is_unchanged


SECOND: Final = 1_000_000_000


@pytest.mark.parametrize(
    ("active", "transforms", "expected"),
    [
        (SECOND, WITH_LANES, True),
        (-1, WITH_LANES, False),  # not started
        (60 * SECOND, WITH_LANES, False),  # heard nothing for long
        (SECOND, SOURCE, False),  # the server still reports the source as it was
    ],
)
def test_a_source_counts_as_started_only_when_it_hears_from_the_log(
    active: int, transforms: dict[str, Any], expected: bool
) -> None:
    found = {"active": active, "subject_transforms": transforms["subject_transforms"]}
    assert is_up(found, WITH_LANES["subject_transforms"]) is expected
