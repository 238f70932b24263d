"""A waiting job is removed when it ends, even if the hint of its end is late or lost."""

from __future__ import annotations

from dataclasses import dataclass

from tests.given import slot
from tests.keys.work_lab import key_view, producer, until_out, worker
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import probe, until_state
from trellis_jobs.contract.topology import KEYS
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.worker.end_watch import RecentEndHints

NO_ANSWER = b"NATS/1.0 503\r\n\r\n"
THE_HINT = rb"\.cancelled "


@dataclass
class Hints:
    then: Then
    seen: int = 0

    def note(self) -> Then:
        self.seen += 1
        return self.then


async def test_a_job_that_is_cancelled_while_its_key_is_acquired_does_not_wait_for_it(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(way.url, "calm"),
    ):
        key, hints = key_view(raw, jobs.calm), Hints(Then.FORWARD)
        way.when_server_sends(THE_HINT, hints.note)
        await key.change(lambda state: replace(state, active=(slot("other"),)))
        unanswered = way.answer_reads_with(NO_ANSWER, b"", times=1000, stream=KEYS.encode())
        ref = await jobs.calm.create(Task())
        await until(unanswered, "the worker requests its key")
        entry = (await key.read()).queued
        await ref.cancel()
        # As if the cancelling process had died before it changed the key: only the hint is left.
        await key.change(lambda state: replace(state, queued=entry))
        await until(lambda: hints.seen, "the worker got the hint")
        way.to_server.clear()
        await raw.until_empty()
        assert await raw.kinds(ref) == ["created", "cancelled"]


async def test_the_handler_of_a_job_that_is_cancelled_as_it_gets_its_key_is_stopped(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(way.url, "calm") as working,
    ):
        first = await jobs.calm.create(Task(do="wait"))
        await working.until_running(first)
        ref = await jobs.calm.create(Task(do="wait"))
        await until_out(raw, jobs.calm, 2)
        way.freeze_after(rb"\.started ")
        working.let_go(first)
        await until_state(ref, JobState.ACTIVE)
        await ref.cancel()
        way.thaw()
        await until(lambda: working.cancelled == [ref.id], "its handler is cancelled")


async def test_a_waiting_job_whose_end_notice_was_lost_is_gone_soon(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(way.url, "brisk") as working,
    ):
        hints = Hints(Then.SWALLOW)
        way.when_server_sends(THE_HINT, hints.note)
        running = await jobs.brisk.create(Task(do="wait"))
        await working.until_running(running)
        ref = await jobs.brisk.create(Task())
        await until_out(raw, jobs.brisk, 2)
        await ref.cancel()
        await until_out(raw, jobs.brisk, 1)
        assert hints.seen == 1


def test_only_the_latest_hints_are_kept() -> None:
    hints = RecentEndHints()
    for number in range(5_000):
        hints.add("often")
        hints.add(str(number))
    assert "often" in hints
    assert "4999" in hints
    assert "0" not in hints
