"""A read that is older than what is known to be in the log proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import orjson
import pytest

from tests import given
from tests.admin.projection_lab import log_lab
from tests.given import REPORT
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from tests.support.lab import probe, producer
from trellis_jobs import JobCancelled, NotConfirmed
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureMissing, JobExists, RequestRefused
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.client.pub_ack import read_pub_ack
from trellis_jobs.model.job_status import Head
from trellis_jobs.worker.end_watch import EndWatch

# This many reads in a row find no leader while a cluster elects one.
ELECTION = 18
LONGER_THAN_AN_ELECTION = 50
NO_LEADER = b"NATS/1.0 503\r\n\r\n"


def tell_of_a_newer_event(way: FaultProxy, sequence: int) -> None:
    """As a replica does that is ahead of the one which histories are read from."""
    way.answer_reads_with(b"NATS/1.0\r\nNats-Sequence: %d\r\n\r\n" % sequence, b"{}", times=1)


async def test_a_history_that_ends_before_what_is_in_the_log_is_not_believed(
    server: EmbeddedServer,
) -> None:
    async with log_lab(server.url), probe(server.url) as raw:
        created = await raw.events.try_append(None, given.created())
        assert isinstance(created, Head)
        with pytest.raises(NotConfirmed, match="at sequence"):
            await raw.events.history(REPORT, at_least=created.sequence + 1)


@pytest.mark.parametrize("is_begun", [True, False], ids=["some of it", "nothing"])
async def test_where_a_job_stands_is_not_told_from_a_history_that_lags(
    server: EmbeddedServer, is_begun: bool
) -> None:
    async with (
        log_lab(server.url),
        fault_proxy(server.url) as way,
        probe(way.url) as raw,
    ):
        if is_begun:
            await raw.events.try_append(None, given.created())
        tell_of_a_newer_event(way, 7)
        with pytest.raises(NotConfirmed, match="at sequence"):
            await raw.events.head(REPORT)


@pytest.mark.parametrize("words", ["wrong last sequence", "", "expected none"])
def test_a_refusal_that_names_no_sequence_does_not_say_that_the_job_is_gone(words: str) -> None:
    refusal = {"error": {"code": 400, "err_code": 10071, "description": words}}
    message = Message("inbox", orjson.dumps(refusal))
    with pytest.raises(RequestRefused):
        read_pub_ack("trellis.jobs.a", message)


async def test_a_job_whose_own_first_copy_is_not_seen_for_a_while_does_not_exist_already(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        probe(server.url) as raw,
        producer(way.url) as jobs,
    ):
        way.when_server_sends(rb'"stream":"JOBS"', lambda: Then.CUT)
        told = way.answer_reads_with_404(times=1000)
        ref = await jobs.work.create(Task())
        assert told() > 1
        assert await raw.kinds(ref) == ["created"]


async def test_a_job_that_exists_is_told_so_although_its_first_event_was_purged(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        probe(server.url) as raw,
        producer(way.url) as jobs,
    ):
        ref = await jobs.work.create(Task(), job_id="J1")
        await ref.cancel()
        purge = orjson.dumps({"filter": f"trellis.jobs.lab.work.{ref.id}.created"})
        await raw.connection.request("$JS.API.STREAM.PURGE.JOBS", purge)
        way.when_server_sends(rb"wrong last sequence", lambda: Then.CUT)
        with pytest.raises(JobExists):
            await jobs.work.create(Task(), job_id="J1")


async def test_a_read_waits_for_a_cluster_that_elects_a_leader(server: EmbeddedServer) -> None:
    async with fault_proxy(server.url) as way, producer(way.url) as jobs:
        ref = await jobs.work.create(Task())
        told = way.answer_reads_with(NO_LEADER, b"", times=ELECTION)
        await ref.cancel()
        assert told() == ELECTION


async def test_a_wait_goes_on_although_the_log_cannot_be_read_for_longer_than_an_election(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        producer(way.url) as far,
    ):
        ref = await jobs.slow.create(Task())
        told = way.answer_reads_with(NO_LEADER, b"", times=1000)
        waiting = asyncio.create_task(far.slow.ref(ref.id).wait(timeout=60))
        await until(
            lambda: told() > LONGER_THAN_AN_ELECTION or waiting.done(), "it goes on", deadline=60
        )
        await ref.cancel()
        way.to_server.clear()
        with pytest.raises(JobCancelled):
            await waiting


async def test_a_hint_that_could_not_be_looked_into_is_not_forgotten() -> None:
    looks: list[str] = []

    async def look() -> bool:
        looks.append("look")
        if len(looks) < 3:
            raise InfrastructureMissing("stream JOBS")
        return True

    async with asyncio.TaskGroup() as tasks:

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            tasks.create_task(work)

        EndWatch(look, spawn).hint()
        await until(lambda: len(looks) == 3, "it was looked into in the end")
