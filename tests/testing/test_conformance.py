"""Handlers behave the same with a server, inline, and in a single run.

Each scenario runs with the real worker and with each replacement, and the results are compared.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.testing.recorded import Recorded, end_of, recorded, without_ids
from tests.testing.troupe import Part, Seen, Troupe, queues
from trellis_jobs import JobIsOver, JobsError
from trellis_jobs.service.queue import Queue
from trellis_jobs.testing import ConnectService, HandlerRun, drain, enqueued, inline

SCENARIOS: Final = [
    *(("play", do) for do in ("answer", "stumble", "later", "fail", "give up", "forget")),
    *(("play", do) for do in ("misfit", "speak", "mumble", "cancel", "sleep")),
    *(("hasty", do) for do in ("answer", "hang")),
    *(("strict", do) for do in ("answer", "fail")),
    *(("sync", do) for do in ("answer", "stumble", "fail", "give up", "misfit", "speak", "sleep")),
    ("mute", "speak"),
    ("brief", "answer"),
    *(("alone", do) for do in ("answer", "fail", "cancel", "sleep")),
]
CROWDS: Final = ["alone", "patient", "merging", "replacing"]


@dataclass(frozen=True)
class Shown:
    end: object
    jobs: tuple[Recorded, ...]
    seen: tuple[Seen, ...]
    stopped: tuple[bool, ...]


async def shown(troupe: Troupe, queue: Queue[Part, str], part: Part, *, drains: bool) -> Shown:
    ref = await queue.create(part)
    if drains:
        await drain(troupe.service)
    jobs = [recorded(each.job, await each.ref.events()) for each in await enqueued(queue)]
    return Shown(await end_of(ref), tuple(jobs), tuple(troupe.seen), tuple(troupe.stopped))


async def really(connect: ConnectService, queue: str, part: Part) -> Shown:
    troupe = Troupe()
    async with connect(troupe.service):
        return await shown(troupe, queues(troupe.jobs)[queue], part, drains=True)


async def in_line(queue: str, part: Part) -> Shown:
    troupe = Troupe()
    async with inline(troupe.service):
        return await shown(troupe, queues(troupe.jobs)[queue], part, drains=False)


@pytest.mark.parametrize(("queue", "do"), SCENARIOS)
async def test_inline_is_as_with_a_server(
    queue: str, do: str, connected_service: ConnectService
) -> None:
    part = Part(do=do)
    expected = await really(connected_service, queue, part)
    assert await in_line(queue, part) == expected
    assert expected.seen


async def test_inline_a_handler_that_always_snoozes_ends_as_with_a_server(
    connected_service: ConnectService,
) -> None:
    part = Part(do="sleep on")
    expected = await really(connected_service, "play", part)
    assert await in_line("play", part) == expected
    assert [seen.snoozes for seen in expected.seen] == [0, 1, 2, 3]
    assert (expected.jobs[0].state, expected.jobs[0].tries) == ("failed", 1)


@pytest.mark.parametrize("queue", CROWDS)
async def test_inline_a_taken_key_answers_as_with_a_server(
    queue: str, connected_service: ConnectService
) -> None:
    part = Part(do="ask for more")
    expected = await really(connected_service, queue, part)
    assert await in_line(queue, part) == expected


@pytest.mark.parametrize(("queue", "do"), [each for each in SCENARIOS if each[1] != "cancel"])
async def test_a_single_run_is_the_first_try_with_a_server(
    queue: str, do: str, connected_service: ConnectService
) -> None:
    part = Part(do=do)
    expected = await really(connected_service, queue, part)
    troupe = Troupe()
    run = HandlerRun(queues(troupe.jobs)[queue], part)
    # test_run_handler.py has what it raises. Here the resulting job is checked.
    with suppress(Exception):
        assert await run.run() == expected.end
    first, now = expected.jobs[0], recorded(run.job.job, [])
    assert troupe.seen[0] == expected.seen[0]
    assert now.errors == first.errors[:1]
    assert now.logs == first.logs[: len(now.logs)]
    assert now.progress == first.progress
    if len(expected.seen) == 1:
        assert (now.state, now.result, now.why) == (first.state, first.result, first.why)
    else:
        assert now.state == "retry"


@pytest.mark.parametrize("tries", [1, 2, 3])
async def test_a_later_try_in_a_single_run_is_that_try_with_a_server(
    tries: int, connected_service: ConnectService
) -> None:
    expected = await really(connected_service, "play", Part(do="fail"))
    troupe = Troupe()
    run = HandlerRun(troupe.jobs.play, Part(do="fail"), tries=tries)
    with pytest.raises(RuntimeError, match="it always fails"):
        await run.run()
    assert troupe.seen == [expected.seen[tries - 1]]
    assert (run.job.state == "dead") == (tries == 3)


async def refusals(troupe: Troupe) -> list[str]:
    jobs, messages = troupe.jobs, []
    wrong: Any = {"do": 7}
    await jobs.unplayed.create(Part(), job_id="twin")
    for attempt in (
        jobs.play.create(wrong),
        jobs.play.create(Part(), job_id="no.token"),
        jobs.unplayed.create(Part(), job_id="twin"),
        jobs.play.ref("unknown").get(),
        jobs.play.ref("unknown").cancel(),
        jobs.play.ref("unknown").wait(timeout=1),
        jobs.unplayed.ref("twin").wait(timeout=0.01),
        jobs.play.create_many([Part(), wrong]),
    ):
        with pytest.raises(JobsError) as refusal:
            await attempt
        messages.append(f"{type(refusal.value).__name__}: {refusal.value}")
    await jobs.unplayed.ref("twin").cancel("off")
    late = await jobs.play.create(Part(), deadline=datetime.now(UTC) - timedelta(seconds=1))
    await drain(troupe.service)
    for ref in (jobs.unplayed.ref("twin"), late):
        messages.append(str(await end_of(ref)))
        with pytest.raises(JobIsOver) as is_over:
            await late.cancel()
        messages.append(without_ids(is_over.value))
    return messages


async def test_inline_refuses_what_a_server_refuses(connected_service: ConnectService) -> None:
    real, unreal = Troupe(), Troupe()
    async with connected_service(real.service):
        expected = await refusals(real)
    async with inline(unreal.service):
        assert await refusals(unreal) == expected


async def test_inline_a_job_is_watched_as_with_a_server(connected_service: ConnectService) -> None:
    async def states(troupe: Troupe) -> list[str]:
        ref = await troupe.jobs.play.create(Part(do="stumble"))
        await drain(troupe.service)
        return [job.state async for job in ref.watch()]

    real, unreal = Troupe(), Troupe()
    async with connected_service(real.service):
        expected = await states(real)
    async with inline(unreal.service):
        assert await states(unreal) == expected
