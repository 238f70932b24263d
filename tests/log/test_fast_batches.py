"""Many jobs begin with one answer to a row of them, and each is created once whatever breaks."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.given import REPORT, created
from tests.support.cluster import cluster
from tests.support.example_service import Task
from tests.support.facts import DEADLINE, until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import Probe, probe, producer
from tests.support.servers import NEWEST, start_version
from trellis_jobs.contract.topology import LOG, Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InboxNotPermitted, PayloadTooLarge
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.fast_batch import is_complete, is_final_ack, rejects_batches
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.log.event_log import Refused
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Created, EventKind
from trellis_jobs.model.values import replace

WITH_ROWS = ("2.14.6", NEWEST)
ROW = 128
UNDER_WAY = 4
LESS_THAN_AN_ANSWER_HAS = 3.0
MANY = 3 * ROW + 5
HEARS = """authorization { users: [
  {user: all, password: all}
  {user: deaf, password: deaf, permissions: {pub: ">", sub: ">"}}
] }"""
OF_A_ROW = rb"^HPUB (\S+\.created) \S+\.\$FI "


@pytest.fixture(params=WITH_ROWS)
def any_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with start_version(request.param) as running:
        yield running


@asynccontextmanager
async def writer(url: str, replicas: int = 1) -> AsyncIterator[Probe]:
    async with probe(url) as raw:
        await provision(raw.connection, Topology(raw.features, replicas=replicas))
        yield raw


def beginning(name: object, text: str = "") -> Created:
    return replace(created(job=replace(REPORT, job_id=f"job-{name}")), payload={"text": text})


def beginnings(count: int = MANY) -> list[Created]:
    return [beginning(n) for n in range(count)]


async def begin(raw: Probe, events: list[Created], timeout: float = 20) -> list[object]:
    async with asyncio.timeout(DEADLINE):
        return list(await raw.events.append_first_many(events, timeout=timeout))


async def times_created(raw: Probe) -> Counter[str]:
    """Of each job, by its id."""
    body = {"subjects_filter": subjects.of_any_job(EventKind.CREATED)}
    info = await api.request(raw.connection, f"STREAM.INFO.{LOG}", body)
    found = info["state"].get("subjects") or {}
    return Counter({subject.split(".")[-2]: number for subject, number in found.items()})


async def created_at(raw: Probe, sequence: int) -> str:
    stored = await api.request(raw.connection, f"STREAM.MSG.GET.{LOG}", {"seq": sequence})
    return str(stored["message"]["subject"].split(".")[-2])


def once_each(events: list[Created]) -> Counter[str]:
    return Counter(event.job.job_id for event in events)


async def test_many_jobs_are_in_the_log_in_their_order_and_sent_once(
    any_server: EmbeddedServer,
) -> None:
    async with fault_proxy(any_server.url) as way, writer(way.url) as raw:
        sent = bytearray()
        way.on_bytes(sent.extend)
        assert all(isinstance(told, int) for told in await begin(raw, beginnings()))
        assert len(re.findall(OF_A_ROW, sent, re.MULTILINE)) == MANY
        assert sent.count(b"HPUB ") == MANY
        assert await times_created(raw) == once_each(beginnings())
        places = (0, ROW, MANY - 1)
        assert [await created_at(raw, n + 1) for n in places] == [f"job-{n}" for n in places]


async def test_few_rows_are_under_way_and_after_one_without_an_answer_each_job_goes_alone(
    server: EmbeddedServer,
) -> None:
    async with fault_proxy(server.url) as way, writer(way.url) as raw:
        sent = bytearray()
        way.on_bytes(sent.extend)
        way.when_server_sends(rb'"count":', lambda: Then.SWALLOW, uses=MANY)
        events = beginnings(2 * MANY)
        assert all(isinstance(told, int) for told in await begin(raw, events))
        made_meanwhile = 1
        assert len(re.findall(OF_A_ROW, sent, re.MULTILINE)) == (UNDER_WAY + made_meanwhile) * ROW
        assert await times_created(raw) == once_each(events)


@pytest.mark.parametrize(
    ("said", "whole", "unknown"),
    [
        (b'{"stream":"JOBS","seq":9,"batch":"b","count":4}', True, False),
        (b'{"stream":"JOBS","seq":8,"batch":"b","count":3}', False, False),
        (b'{"type":"err","seq":2,"error":{"code":400,"err_code":10071}}', False, False),
        (b'{"type":"gap","last_seq":2,"seq":3}', False, False),
        (b'{"error":{"code":400,"err_code":10208},"stream":"JOBS","seq":0}', False, False),
        (b'{"error":{"code":400,"err_code":10205},"stream":"JOBS","seq":0}', False, True),
        (b'{"stream":"JOBS","seq":9}', False, True),  # an older server leads the stream
        (b"", False, False),
        (b"[]", False, False),
        (b"{", False, False),
    ],
)
def test_only_the_word_for_all_of_them_makes_a_row_whole(
    said: bytes, whole: bool, unknown: bool
) -> None:
    message = Message("reply", said)
    assert is_final_ack(message)
    assert is_complete(message, 4) == whole
    assert rejects_batches(message) == unknown


def test_how_far_a_server_is_does_not_end_a_row() -> None:
    assert not is_final_ack(Message("reply", b'{"type":"ack","seq":3,"msgs":2}'))


@pytest.mark.parametrize("place", [0, 1, ROW // 2, ROW - 1, ROW, MANY - 1])
async def test_only_the_job_that_exists_is_refused(server: EmbeddedServer, place: int) -> None:
    async with writer(server.url) as raw:
        first = await begin(raw, [beginning(place)])
        answers = await begin(raw, beginnings())
        assert answers[place] == Refused(int(str(first[0])))
        assert all(isinstance(told, int) for n, told in enumerate(answers) if n != place)
        assert await times_created(raw) == once_each(beginnings())


async def test_a_name_that_is_given_twice_is_given_to_the_first(server: EmbeddedServer) -> None:
    async with writer(server.url) as raw:
        events = [*beginnings(ROW // 2), beginning(3), *map(beginning, range(1000, 1050))]
        answers = await begin(raw, events)
        assert [n for n, told in enumerate(answers) if isinstance(told, Refused)] == [ROW // 2]
        assert set((await times_created(raw)).values()) == {1}


@pytest.mark.parametrize("place", [0, ROW // 2, ROW - 1])
async def test_a_row_that_is_cut_begins_each_job_once(server: EmbeddedServer, place: int) -> None:
    async with fault_proxy(server.url) as way, writer(way.url) as raw:
        way.when_client_sends(rb"job-%d\.created" % place, lambda: Then.CUT)
        assert all(isinstance(told, int) for told in await begin(raw, beginnings()))
        assert way.to_server[0].uses == 0
        assert await times_created(raw) == once_each(beginnings())


async def test_a_row_whose_answer_is_lost_begins_each_job_once(server: EmbeddedServer) -> None:
    async with fault_proxy(server.url) as way, writer(way.url) as raw:
        way.when_server_sends(rb'"count":', lambda: Then.CUT)
        assert all(isinstance(told, int) for told in await begin(raw, beginnings()))
        assert way.to_client[0].uses == 0
        assert await times_created(raw) == once_each(beginnings())


async def test_a_server_that_is_killed_in_the_middle_has_each_job_once_after_it(
    server: EmbeddedServer,
) -> None:
    async with fault_proxy(server.url) as way, writer(server.url) as told, writer(way.url) as raw:

        def kill() -> Then:
            server.kill()
            server.restart()
            return Then.CUT

        way.when_client_sends(rb"job-200\.created", kill)
        assert all(isinstance(answer, int) for answer in await begin(raw, beginnings()))
        assert await times_created(told) == once_each(beginnings())


async def test_a_stream_that_takes_no_rows_is_asked_once(server: EmbeddedServer) -> None:
    async with fault_proxy(server.url) as way, writer(way.url) as raw:
        config = (await api.request(raw.connection, f"STREAM.INFO.{LOG}"))["config"]
        await api.request(
            raw.connection, f"STREAM.UPDATE.{LOG}", {**config, "allow_batched": False}
        )
        sent = bytearray()
        way.on_bytes(sent.extend)
        first, second = beginnings()[:200], beginnings()[200:]
        assert all(isinstance(told, int) for told in await begin(raw, first))
        asked = len(re.findall(OF_A_ROW, sent, re.MULTILINE))
        assert asked > 0
        assert all(isinstance(told, int) for told in await begin(raw, second))
        assert len(re.findall(OF_A_ROW, sent, re.MULTILINE)) == asked
        assert await times_created(raw) == once_each(beginnings())


async def test_events_too_large_for_the_server_keep_no_other_event_out(
    server: EmbeddedServer,
) -> None:
    async with writer(server.url) as raw:
        events = beginnings()
        events[7] = beginning(7, "x" * (2 << 20))
        answers = await begin(raw, events)
        assert [n for n, told in enumerate(answers) if isinstance(told, PayloadTooLarge)] == [7]
        assert await times_created(raw) == once_each(beginnings()) - Counter(["job-7"])


async def test_large_payloads_all_go_in(server: EmbeddedServer) -> None:
    async with writer(server.url) as raw:
        events = [beginning(n, "x" * (n * 4_000)) for n in range(ROW)]
        assert all(isinstance(told, int) for told in await begin(raw, events))
        assert await times_created(raw) == once_each(events)


async def test_a_job_of_a_batch_is_known_to_its_creator(server: EmbeddedServer) -> None:
    async with fault_proxy(server.url) as way, producer(way.url) as jobs:
        *_, ref = await jobs.work.create_many([Task() for _ in range(10)])
        lies = way.answer_reads_with_404(times=2)
        await ref.cancel()
        assert lies() == 2


async def test_who_cannot_hear_answers_begins_nothing() -> None:
    """Its right to its inbox was taken away: what it is told is true of every job."""
    with EmbeddedServer.start(config=HEARS) as server:
        everybody, deaf = (server.url.replace("//", f"//{who}:{who}@") for who in ("all", "deaf"))
        async with writer(everybody) as told, probe(deaf) as raw:
            (server.store / "nats.conf").write_text(
                HEARS.replace('sub: ">"', "sub: {deny: _INBOX.>}")
            )
            os.kill(server.pid, signal.SIGHUP)

            async def is_deaf() -> bool:
                try:
                    await raw.connection.request("$JS.API.INFO", timeout=0.2)
                except InboxNotPermitted:
                    return True
                except ConnectionLost:
                    return False
                return False

            await until(is_deaf, "the inbox is denied")
            answers = await begin(raw, beginnings(), timeout=2)
            assert {type(answer) for answer in answers} == {InboxNotPermitted}
            assert await times_created(told) == Counter()


async def test_of_two_that_begin_the_same_jobs_on_a_cluster_one_begins_each() -> None:
    with cluster() as nodes:
        await nodes.until_ready()
        async with writer(nodes.url, replicas=3) as one, writer(nodes.url, replicas=3) as other:
            some, same = await asyncio.gather(
                begin(one, beginnings()), begin(other, beginnings()[::-1])
            )
            for told, also_told in zip(some, same[::-1], strict=True):
                assert {type(told), type(also_told)} == {int, Refused}
            assert await times_created(one) == once_each(beginnings())
            more = [beginning(n) for n in range(1000, 1000 + ROW)]
            more[ROW // 2] = beginning(0)
            told = await begin(one, more, timeout=LESS_THAN_AN_ANSWER_HAS)
            assert [n for n, each in enumerate(told) if not isinstance(each, int)] == [ROW // 2]
