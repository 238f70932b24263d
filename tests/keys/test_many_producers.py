"""Four processes create jobs of five keys at the same time, and every outcome is checked.

Run as a program it is one of them: it waits for a line, creates jobs, and prints the outcomes.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

import trellis_jobs
from tests.keys.keyed_lab import Key, helpdesk, producer
from tests.support.example_service import Task, TaskJobs
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import Accepted, Coalesced, Rejected, Replaced
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind

PROCESSES = 4
JOBS_EACH = 50
ORIGINS = ("acme", "globex", "initech", "umbrella", "wonka")
QUEUES = ("roomy", "coalesce", "newest")
ROOM = 4  # in a key of the first two: one that runs, and three that wait
ROOT = Path(trellis_jobs.__file__).parent.parent


@dataclass
class Answer:
    queue: str
    origin: str
    outcome: str
    job_id: str = ""
    replaced: str = ""


def answer(queue: str, origin: str, outcome: Any) -> Answer:
    match outcome:
        case Accepted(ref):
            return Answer(queue, origin, "accepted", ref.id)
        case Replaced(ref, replaced):
            return Answer(queue, origin, "replaced", ref.id, replaced)
        case Coalesced(existing):
            return Answer(queue, origin, "coalesced", existing.id)
        case Rejected():
            return Answer(queue, origin, outcome.reason, outcome.existing_job_id)
        case _:
            return Answer(queue, origin, repr(outcome))


async def submit_all(url: str, folder: Path, name: str) -> list[Answer]:
    async with producer(url) as jobs:
        (folder / f"ready-{name}").touch()
        await until((folder / "go").exists, "the word to begin")
        return [each for queue in QUEUES for each in await ask(jobs, queue)]


async def ask(jobs: TaskJobs, queue: str) -> list[Answer]:
    origins = [ORIGINS[n % len(ORIGINS)] for n in range(JOBS_EACH)]
    outcomes = await asyncio.gather(
        *(getattr(jobs, queue).submit(Task(key=origin)) for origin in origins),
        return_exceptions=True,
    )
    return [answer(queue, *pair) for pair in zip(origins, outcomes, strict=True)]


@dataclass
class Fleet:
    server: EmbeddedServer
    answers: list[Answer]

    def of(self, queue: str, origin: str | None = None) -> list[Answer]:
        return [a for a in self.answers if a.queue == queue and origin in {None, a.origin}]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("producers")
    with EmbeddedServer.start() as server, ExitStack() as stack:
        asyncio.run(provisioned(server.url))
        processes = [start(stack, server.url, folder, str(n)) for n in range(PROCESSES)]
        asyncio.run(until(lambda: len(list(folder.glob("ready-*"))) == PROCESSES, "all are there"))
        (folder / "go").touch()
        outputs = [process.communicate()[0] for process in processes]
        yield Fleet(server, [Answer(**each) for output in outputs for each in json.loads(output)])


async def provisioned(url: str) -> None:
    async with producer(url):
        pass


def start(stack: ExitStack, url: str, folder: Path, name: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "tests.keys.test_many_producers", url, str(folder), name]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


async def created(raw: Probe, queue: str) -> int:
    """How many jobs of a queue the log holds."""
    subject = subjects.of_kind("helpdesk", queue, EventKind.CREATED)
    info = await api.request(raw.connection, "STREAM.INFO.JOBS", {"subjects_filter": subject})
    return sum((info["state"].get("subjects") or {}).values())


@pytest.mark.parametrize(
    ("queue", "otherwise"), [("roomy", "queue-depth"), ("coalesce", "coalesced")]
)
async def test_exactly_as_many_jobs_are_admitted_as_there_is_room_and_all_others_are_refused(
    fleet: Fleet, queue: str, otherwise: str
) -> None:
    submitted, admitted = PROCESSES * JOBS_EACH, ROOM * len(ORIGINS)
    assert Counter(each.outcome for each in fleet.of(queue)) == {
        "accepted": admitted,
        otherwise: submitted - admitted,
    }
    async with probe(fleet.server.url) as raw:
        assert await created(raw, queue) == admitted
        for origin in ORIGINS:
            answers = fleet.of(queue, origin)
            mine = {each.job_id for each in answers if each.outcome == "accepted"}
            assert len(mine) == ROOM
            assert set(await Key(raw, queue, origin).queued()) == mine
            assert {each.job_id for each in answers} == mine  # others are referred to one of them


async def test_among_many_replacements_each_job_ends_once_and_no_key_exceeds_its_limit(
    fleet: Fleet,
) -> None:
    answers = fleet.of("newest")
    assert {each.outcome for each in answers} == {"accepted", "replaced"}
    gone = [each.replaced for each in answers if each.replaced]
    assert len(gone) == len(set(gone))
    async with helpdesk(fleet.server.url) as (jobs, raw):
        assert await created(raw, "newest") == PROCESSES * JOBS_EACH
        for each in answers:
            ended = ["skipped"] if each.job_id in gone else []
            assert await raw.kinds(jobs.newest.ref(each.job_id)) == ["created", *ended]
        for origin in ORIGINS:
            (left,) = await Key(raw, "newest", origin).queued()
            assert left in {each.job_id for each in fleet.of("newest", origin)} - set(gone)


if __name__ == "__main__":
    _, url, folder, name = sys.argv
    outputs = asyncio.run(submit_all(url, Path(folder), name))
    print(json.dumps([asdict(each) for each in outputs]))
