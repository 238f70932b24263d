"""Bad input gets a typed, explained error, changes nothing, and stops no loop."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
from pydantic import BaseModel

from tests.support.example_service import Report, Task, example_jobs
from tests.support.lab import LAB, probe, producer, worker
from trellis_jobs import (
    ActiveJob,
    CredentialsRefused,
    DeclarationError,
    JobFailed,
    Jobs,
    NotConnected,
    PayloadInvalid,
    PayloadTooLarge,
    Service,
    SomeNotCreated,
    Workers,
    job,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InvalidToken
from trellis_jobs.jetstream.client import api


class Measure(BaseModel):
    value: float


class LooseTask(BaseModel):
    do: int


class OddJobs(Jobs, service="odd"):
    measure = job(Measure, Measure)
    big = job(str, str)


# The same queue as the lab's, as an older deploy might have declared it.
LOOSE: Final = example_jobs(
    "lab",
    LooseTask,
    Report,
    work={},
)


async def test_a_payload_larger_than_the_server_takes_is_refused_before_it_is_sent() -> None:
    with EmbeddedServer.start(config="max_payload: 4096") as server:
        service = Service(OddJobs)
        async with service.connect(server.url, workers=False), probe(server.url) as raw:
            for size in (5000, 4096, 3900):
                with pytest.raises(PayloadTooLarge, match="4,096"):
                    await service.jobs.big.create("x" * size)
            await service.jobs.big.create("x" * 2000)
            log = await api.request(raw.connection, "STREAM.INFO.JOBS")
            assert log["state"]["messages"] == 1


async def test_a_result_too_large_to_store_fails_the_job_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A warning said that log lines and progress were left out, of which there were none."""
    with EmbeddedServer.start(config="max_payload: 4096") as server:
        service = Service(OddJobs)

        @service.jobs.big.handle
        async def grow(active: ActiveJob[str]) -> str:
            return active.payload * 100

        async with service.connect(server.url):
            ref = await service.jobs.big.create("x" * 100)
            with pytest.raises(JobFailed, match=r"cannot be stored.*max_payload is 4,096"):
                await ref.wait(timeout=10)
    assert "left out" not in caplog.text


async def test_numbers_that_json_does_not_have_are_refused(server: EmbeddedServer) -> None:
    service = Service(OddJobs)

    @service.jobs.measure.handle
    async def divide(active: ActiveJob[Measure]) -> Measure:
        return Measure(value=math.inf)

    async with service.connect(server.url):
        for value in (math.nan, math.inf):
            with pytest.raises(PayloadInvalid, match="JSON cannot represent"):
                await service.jobs.measure.create(Measure(value=value))
        ref = await service.jobs.measure.create(Measure(value=1))
        with pytest.raises(JobFailed, match="JSON cannot represent inf"):
            await ref.wait(timeout=10)


async def test_a_payload_of_the_wrong_type_is_refused(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        wrong: Any = {"do": ["not", "text"]}
        with pytest.raises(PayloadInvalid, match="do: Input should be a valid string"):
            await jobs.work.create(wrong)
        with pytest.raises(PayloadInvalid):
            await jobs.work.create_many([Task(), wrong])


async def test_when_some_of_many_cannot_be_created_the_error_says_which(
    server: EmbeddedServer,
) -> None:
    with EmbeddedServer.start(config="max_payload: 4096") as small:
        service = Service(OddJobs)
        async with service.connect(small.url, workers=False):
            with pytest.raises(SomeNotCreated) as caught:
                await service.jobs.big.create_many(["a", "b" * 4000, "c"])
            assert (sorted(caught.value.created), sorted(caught.value.failed)) == ([0, 2], [1])


async def test_a_payload_that_does_not_validate_fails_without_running_the_handler(
    server: EmbeddedServer,
) -> None:
    older = Service(LOOSE)
    async with older.connect(server.url, workers=False), worker(server.url, "work") as bench:
        ref = await older.jobs.work.create(LooseTask(do=7))
        with pytest.raises(JobFailed, match="payload_invalid"):
            await ref.wait(timeout=10)
        assert bench.runs == []


async def test_a_result_that_does_not_validate_fails_the_job(server: EmbeddedServer) -> None:
    service = Service(LAB)
    wrong: Any = {"not": "a report"}

    @service.jobs.work.handle
    async def answer(active: ActiveJob[Task]) -> Report:
        return wrong  # type: ignore[no-any-return]

    async with service.connect(server.url):
        ref = await service.jobs.work.create(Task())
        with pytest.raises(JobFailed, match="result_invalid"):
            await ref.wait(timeout=10)


FOREIGN = [b"", b"\xff\xfe", b"{", b"[]", b"null", b'{"jobId":"x"}', b"NaN"]


async def test_foreign_bytes_on_a_work_subject_are_dropped_and_the_loop_lives(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        for number, data in enumerate(FOREIGN):
            for headers in (None, {"Trellis-Run-Seq": "1"}, {"Trellis-Run-Seq": "x"}):
                await raw.connection.request(
                    f"trellis.work.lab.work.F{number}", data, headers=headers
                )
        await raw.until_empty()
        assert (await (await bench.jobs.work.create(Task())).wait(timeout=10)).tries == 1
    dropped = [r for r in caplog.records if "dropped an invalid work message" in r.message]
    assert len(dropped) == 3 * len(FOREIGN)


async def test_foreign_bytes_among_a_jobs_events_are_ignored(server: EmbeddedServer) -> None:
    async with worker(server.url, "slow") as bench, probe(server.url) as raw:
        ref = await bench.jobs.slow.create(Task(do="wait"))
        await bench.until_running(ref)
        for event in ("completed", "cancelled", "nonsense"):
            await raw.connection.request(
                f"trellis.jobs.lab.slow.{ref.id}.{event}", b"\x00 not an event"
            )
        bench.go.set()
        assert (await ref.wait(timeout=10)).tries == 1
        assert len(await ref.events()) == 3


@pytest.mark.parametrize("name", ["dots.in.name", "a space", "wild*", ">", "", "ümlaut"])
async def test_names_that_are_no_tokens_are_refused_and_named(
    server: EmbeddedServer, name: str
) -> None:
    with pytest.raises(DeclarationError, match="service"):
        type("Bad", (Jobs,), {}, service=name)
    async with producer(server.url) as jobs:
        if name:
            with pytest.raises(InvalidToken):
                await jobs.work.create(Task(), job_id=name)
        with pytest.raises(InvalidToken):
            jobs.work.ref(name)


async def test_wishes_that_cannot_be_met_fail_before_anything_starts(
    server: EmbeddedServer,
) -> None:
    service = Service(LAB)
    with pytest.raises(NotConnected, match="lab"):
        await service.jobs.work.create(Task())

    @service.jobs.work.handle
    async def first(active: ActiveJob[Task]) -> Report:
        return Report(text=active.id, tries=active.tries)

    with pytest.raises(DeclarationError, match=r"'work'.*first"):
        service.jobs.work.handle(first)
    for workers, complaint in (
        (Workers(queues=["nosuch"]), "no queue 'nosuch'"),
        (Workers(queues=["slow"]), "'slow' has no handler"),
        (Workers(concurrency=0), "concurrency must be at least 1"),
    ):
        with pytest.raises(DeclarationError, match=complaint):
            async with service.connect(server.url, workers=workers):
                pass


async def test_a_handler_cannot_be_added_to_a_running_worker(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench:
        with pytest.raises(DeclarationError, match="before the service connects"):
            bench.jobs.work.handle(bench.handle)


async def test_progress_beyond_what_readers_take_is_kept_within(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench:
        ref = await bench.jobs.work.create(Task(do="wait"))
        active = await bench.until_running(ref)
        await active.progress(current=-5, total=2**80)
        bench.go.set()
        await ref.wait(timeout=10)
        progress = (await ref.get()).progress
        assert progress is not None
        assert (progress.current, progress.total) == (0, 2**53 - 1)


async def test_wrong_credentials_have_their_own_error_which_does_not_repeat_them() -> None:
    users = 'authorization { users: [{user: "a", password: "b"}] }'
    with EmbeddedServer.start(config=users) as closed:
        wrong = closed.url.replace("//", "//a:geheim@")
        with pytest.raises(CredentialsRefused) as caught:
            async with Service(LAB).connect(wrong):
                pass
        assert "geheim" not in str(caught.value)
