"""`trellis-jobs queues`: the backlog and the workers of each queue; pause and resume it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs_admin.api.views.services import TypeStats
from jobs_admin.cli.queues.list import queue_table
from jobs_admin.cli.render.output import Output
from jobs_admin.doctor.rules import check_queues
from jobs_admin.queues.state import (
    ListedQueue,
    ProjectedQueues,
    compare_with_code,
    queue_views,
    without_ended,
)
from tests.cli.stage import Place, Stage, stage
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import LAB, lab_worker, probe, producer, until_state, worker
from tests.support.servers import start_version
from trellis_jobs import Workers
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.topology import queue_consumer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer
from trellis_jobs.jetstream.work.queues import ServerQueue
from trellis_jobs.model.states import JobState

LIST = ("queues", "list")
WORK = LAB.contract.queues["work"]
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        asyncio.run(_start_once(made.url))
        yield made


async def _start_once(url: str) -> None:
    """So that the consumers of two queues exist, and work that no worker requests."""
    async with lab_worker().service.connect(url, workers=Workers(queues=["work", "slow"])):
        pass
    async with producer(url) as jobs:
        await jobs.work.create_many([Task(), Task()])

    async with probe(url) as raw:

        async def has_two() -> bool:
            return bool((await raw.consumer("work"))["num_pending"] == 2)

        await until(has_two, "both jobs wait")


def queues_of(told: Any) -> dict[str, dict[str, Any]]:
    return {f"{each['service']}/{each['type']}": each for each in told["queues"]}


def test_every_queue_of_the_server_is_listed_with_what_waits(there: Stage) -> None:
    ended = there.shell(*LIST, "--json")
    assert (ended.code, ended.err) == (0, "")
    work = queues_of(ended.json)["lab/work"]
    assert (work["depth"], work["inFlight"], work["freeSlots"]) == (2, 0, 0)
    assert (work["paused"], work["ackWaitMs"]) == (False, 1000)
    assert (work["unattended"], work["workers"]) == (True, 0)
    assert work["states"]["pending"] == 2
    assert work["oldestAgeMs"] > 0
    assert queues_of(ended.json)["lab/slow"]["depth"] == 0


def test_on_a_terminal_names_are_whole_and_trouble_stands_below(there: Stage) -> None:
    ended = there.at_terminal(*LIST, columns=40)
    assert ended.code == 0
    lines = ended.plain.splitlines()
    assert lines[0].split()[:4] == ["queue", "waiting", "in", "progress"]
    assert all(len(line.rstrip()) <= 40 for line in lines)
    assert any(line.startswith("lab/work ") for line in lines)


def test_settings_that_differ_from_the_contract_are_drift(there: Stage) -> None:
    async def change(ack_wait: int) -> None:
        """A change from outside: the contract in the consumer's metadata stays what it is."""
        async with probe(there.url) as raw:
            desired = queue_consumer("lab", LAB.contract.queues["slow"])
            await ensure_consumer(raw.connection, desired | {"ack_wait": ack_wait * 1_000_000_000})

    asyncio.run(change(7))
    drift = queues_of(there.shell(*LIST, "--json").json)["lab/slow"]["drift"]
    assert drift == ["ack_wait should be 30 s, is 7 s"]
    asyncio.run(change(30))
    assert queues_of(there.shell(*LIST, "--json").json)["lab/slow"]["drift"] == []


def test_code_at_hand_tells_which_queues_never_had_a_worker(there: Stage) -> None:
    told = queues_of(there.shell(*LIST, "--json", "--app", "tests.cli.shop:service").json)
    assert "no worker of it was ever started" in told["shop/greet"]["drift"][0]
    assert "lab/work" in told


def test_a_paused_queue_hands_out_nothing_and_says_why(there: Stage) -> None:
    pause = ("queues", "pause", "lab/slow", "--reason", "the bank is away", "--by", "ann")
    until = there.shell(*pause, "--for", "1h", "--absolute").out
    assert re.match(
        r"lab/slow is paused until [\d-]+T[\d:.]+Z; 0 waiting, 0 in progress\n", until
    ), until
    ended = there.shell(*pause, "--for", "10m")
    assert (ended.code, ended.out) == (
        0,
        "lab/slow is paused for 10 min; 0 waiting, 0 in progress\n",
    )
    slow = queues_of(there.shell(*LIST, "--json").json)["lab/slow"]
    assert (slow["paused"], slow["pauseReason"], slow["pausedBy"]) == (
        True,
        "the bank is away",
        "ann",
    )
    assert slow["drift"] == []
    asyncio.run(_until_paused_job_runs(there))
    [resumed, *_] = there.shell("audit", "list", "--verb", "resume", "--json").json["entries"]
    assert (resumed["type"], resumed["reason"]) == ("slow", "it is back")
    assert there.shell("queues", "resume", "lab/slow").out == "lab/slow was not paused\n"


async def _until_paused_job_runs(there: Stage) -> None:
    async with worker(there.url, "slow") as slow:
        ref = await slow.jobs.slow.create(Task())
        why = await asyncio.to_thread(there.shell, "jobs", "explain", ref.id)
        assert "The queue lab/slow is paused" in why.out
        assert not slow.runs
        resume = ("queues", "resume", "lab/slow", "--reason", "it is back", "--json")
        ended = await asyncio.to_thread(there.shell, *resume)
        assert ended.json == {"service": "lab", "type": "slow", "paused": False}
        await until_state(ref, JobState.COMPLETED)


async def test_a_resumed_queue_wakes_workers_that_wait_for_work(server: EmbeddedServer) -> None:
    """A pause that was only taken away left their pulls asleep for up to five seconds.

    Here the pull is of a minute, so nothing but the resume can wake it within the test.
    """
    place, pulled = Place(server.url), asyncio.Event()
    async with worker(server.url, "slow"):
        pass
    async with probe(server.url) as raw, producer(server.url) as jobs:

        async def counts(name: str) -> bool:
            return bool((await raw.consumer("slow"))[name] == 1)

        await raw.connection.subscribe("_INBOX.pull", lambda _: pulled.set())
        body = b'{"batch":1,"expires":60000000000}'
        call = "$JS.API.CONSUMER.MSG.NEXT.JOBS_WORK.lab-slow"
        await raw.connection.publish(call, body, reply="_INBOX.pull")
        await until(lambda: counts("num_waiting"), "the pull waits")
        pause = ("queues", "pause", "lab/slow", "--reason", "x")
        assert (await asyncio.to_thread(place.shell, *pause)).code == 0
        await jobs.slow.create(Task())
        await until(lambda: counts("num_pending"), "the job waits")
        assert not pulled.is_set()
        resumed = await asyncio.to_thread(place.shell, "queues", "resume", "lab/slow")
        assert resumed.out == "lab/slow is resumed; 1 waiting\n"
        await until(pulled.is_set, "the pull is answered")


def test_a_pause_without_an_end_lasts_until_it_is_resumed(there: Stage) -> None:
    ended = there.shell("queues", "pause", "lab/slow", "--reason", "for now", "--json")
    assert "pausedUntil" not in ended.json
    assert "paused until it is resumed: for now" in there.shell(*LIST).out
    created = there.shell("jobs", "create", "lab/slow", "{}", "--json").json
    why = there.shell("jobs", "explain", created["id"], "--json").json
    assert "until an operator resumes it: for now" in why["sentence"]
    assert "`trellis-jobs queues resume lab/slow`" in why["next"]
    assert "until" not in why
    there.shell("queues", "resume", "lab/slow")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("pause", "lab/nosuch", "--reason", "x"), 3, "queues: lab/slow, lab/work"),
        (("resume", "lab/nosuch"), 3, "queues: lab/slow, lab/work"),
        (("pause", "lab/slow"), 2, "--reason"),
        (("pause", "lab/slow", "--reason", " "), 2, "say why the queue is paused"),
        (("pause", "lab/slow", "--reason", "x", "--for", "soon"), 2, "is not a duration"),
        (("pause", "lab/slow", "--reason", "x", "--for", "9999999d"), 2, "longer than 3650 days"),
        (("list", "--nats", "nats://127.0.0.1:1"), 4, "no NATS server answers"),
    ],
)
def test_what_cannot_be_done_is_said(
    there: Stage, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ended = there.shell("queues", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err


def test_without_an_admin_runtime_the_server_alone_tells(server: EmbeddedServer) -> None:
    asyncio.run(_start_once(server.url))
    alone = Place(server.url)
    ended = alone.shell(*LIST, "--json")
    assert ended.code == 0
    assert "Retries and rates are not available: no admin runtime answers" in ended.err
    work = queues_of(ended.json)["lab/work"]
    assert (work["depth"], work["unattended"]) == (2, True)
    assert "states" not in work
    assert "lab/work: jobs are waiting, and no worker" in alone.at_terminal(*LIST).plain


def test_an_older_server_says_that_it_cannot_pause() -> None:
    with start_version("2.10.26") as server:
        asyncio.run(_start_once(server.url))
        ended = Place(server.url).shell("queues", "pause", "lab/work", "--reason", "x")
    assert ended.code == 1
    assert "pausing a queue needs nats-server 2.11 or newer, this server is 2.10.26" in ended.err


def consumer(**changes: Any) -> QueueConsumer:
    made = QueueConsumer(
        name="lab-work",
        at=NOW,
        subject="trellis.work.lab.work.*",
        ack_wait=timedelta(seconds=1),
        delivery_limit=None,
        delivered=0,
        pending=3,
        ack_pending=0,
        waiting_pulls=0,
        is_paused=False,
        pause_remaining=None,
        config=queue_consumer("lab", WORK),
    )
    return replace(made, **changes)


def listed(job_type: str, found: QueueConsumer) -> ListedQueue:
    return ListedQueue(ServerQueue("lab", job_type, found))


def projected(workers: int | None = None, **states: int) -> ProjectedQueues:
    counted = TypeStats(service="lab", type="work", states=states, per_minute={})
    return ProjectedQueues((counted,), {} if workers is None else {"lab/work": workers})


@pytest.mark.parametrize(
    ("workers", "changes", "unattended"),
    [
        (None, {}, True),
        (None, {"waiting_pulls": 1}, False),
        (None, {"ack_pending": 1}, False),
        (None, {"pending": 0}, False),
        (0, {"ack_pending": 1}, True),
        (0, {"pending": 0, "ack_pending": 1}, True),
        (0, {"waiting_pulls": 1}, False),
        (1, {}, True),
        (1, {"ack_pending": 1}, False),
        (0, {"is_paused": True}, False),
    ],
)
def test_a_queue_is_unattended_when_work_waits_without_a_worker(
    workers: int | None, changes: dict[str, int], unattended: bool
) -> None:
    known = None if workers is None else projected(workers)
    [queue] = queue_views([listed("work", consumer(**changes))], known)
    assert queue.unattended is unattended


def test_work_of_a_queue_that_never_had_a_worker_is_listed() -> None:
    [queue] = queue_views([], projected(0, pending=2, retry=1))
    assert (queue.name, queue.depth, queue.waiting, queue.unattended) == ("lab/work", None, 3, True)
    [finding] = check_queues([queue])[1:]
    assert (finding.message, finding.remedy) == (
        "lab/work: 3 waiting, and no worker is available",
        "start workers for lab/work",
    )
    [ended] = queue_views([], projected(completed=2))
    assert (ended.name, ended.waiting, ended.unattended) == ("lab/work", 0, False)
    assert without_ended([queue, ended]) == [queue]


def test_what_producers_alone_have_made_is_seen_by_list_and_by_doctor(there: Stage) -> None:
    asyncio.run(_create_without_a_worker(there.url))

    def seen() -> bool:
        return "lab/mute" in queues_of(there.shell(*LIST, "--json").json)

    asyncio.run(until(seen, "the projection has it"))
    listed = there.shell(*LIST).out
    assert "lab/mute: jobs are waiting, and no worker is available" in listed

    def advised() -> bool:
        """Once the admin runtime is not too busy to answer."""
        told = there.shell("doctor", "--json")
        assert told.code == 1
        return "start workers for lab/mute" in told.json["toDo"]

    asyncio.run(until(advised, "doctor says what to do"))


async def _create_without_a_worker(url: str) -> None:
    async with producer(url) as jobs:
        await jobs.mute.create(Task())


def test_ages_and_ends_of_pauses_are_by_the_clock_of_the_server() -> None:
    """The clock of the operator's machine may be minutes off."""
    paused = consumer(is_paused=True, pause_remaining=timedelta(minutes=10))
    found = ListedQueue(ServerQueue("lab", "work", paused), NOW - timedelta(hours=2))
    [queue] = queue_views([found], None)
    assert (queue.oldest_age_ms, queue.paused_until) == (7_200_000, NOW + timedelta(minutes=10))


def test_a_queue_that_the_code_declares_no_more_is_said() -> None:
    declared, server = ServiceContract("lab", {"work": WORK}), [listed("gone", consumer())]
    made = compare_with_code(queue_views(server, None), server, declared)
    assert (made[0].name, made[0].drift) == (
        "lab/gone",
        ("on the server, but no longer declared",),
    )
    assert "no worker of it was ever started" in made[1].drift[0]


def test_columns_give_way_before_a_name_is_cut() -> None:
    queues = queue_views([listed("work", consumer())], projected(retry=2))
    wide = queue_table(queues, Output(), 100)
    narrow = queue_table(queues, Output(), 20)
    assert [str(column.header) for column in wide.columns][-1] == "done/min"
    assert [str(column.header) for column in narrow.columns] == ["queue", "waiting", "in progress"]
