"""A key stays usable whatever fails between its reservation and `created` in the log."""

from __future__ import annotations

import asyncio

import pytest

from tests.keys.keyed_lab import (
    EVENT_ANSWERED,
    KEY_WRITE_ANSWERED,
    Held,
    Key,
    events_in_log,
    helpdesk,
    producer,
    reserved,
    worker,
)
from tests.support.example_service import Task
from tests.support.facts import DEADLINE
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import probe
from trellis_jobs import Accepted, JobExists, KeyBusy, NotConfirmed, PayloadTooLarge, Replaced
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import JobsError, SomeNotCreated
from trellis_jobs.producer import submission

TOO_MUCH = "x" * 2_000_000


async def test_a_place_whose_job_never_came_is_free_again_after_a_minute(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "strict")
        await key.put_waiting(reserved("never-created", seconds_ago=61))
        ref = await jobs.strict.create(Task())
        assert await key.queued() == [ref.id]


async def test_a_place_whose_job_may_still_come_counts(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "strict")
        await key.put_waiting(reserved("on-its-way", seconds_ago=50))
        with pytest.raises(KeyBusy) as refused:
            await jobs.strict.create(Task())
        assert refused.value.existing_job_id == "on-its-way"
        assert await key.queued() == ["on-its-way"]


async def test_a_job_that_waits_for_long_keeps_its_place(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "strict")
        ref = await jobs.strict.create(Task())
        await key.put_waiting(reserved(ref.id, seconds_ago=3600))
        with pytest.raises(KeyBusy):
            await jobs.strict.create(Task())
        assert await key.queued() == [ref.id]


async def test_a_place_whose_job_never_came_holds_up_no_worker(server: EmbeddedServer) -> None:
    async with worker(server.url, "roomy") as bench, probe(server.url) as raw:
        key = Key(raw, "roomy")
        await key.put_waiting(reserved("never-created", seconds_ago=5))
        ref = await bench.jobs.roomy.create(Task())
        assert (await ref.wait(timeout=10)).tries == 1
        assert await key.queued() == ["never-created"]


async def test_a_second_job_of_one_id_takes_nothing_from_the_first(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "patient")
        await jobs.patient.create(Task(), job_id="mine")
        before = await key.stored()
        with pytest.raises(JobExists):
            await jobs.patient.create(Task(), job_id="mine")
        assert await key.stored() == before
        assert await key.queued() == ["mine"]


async def test_a_second_job_of_one_id_leaves_no_place_behind_in_another_key(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        await jobs.strict.create(Task(key="acme"), job_id="mine")
        with pytest.raises(JobExists):
            await jobs.strict.create(Task(key="globex"), job_id="mine")
        assert await Key(raw, "strict", "acme").queued() == ["mine"]
        assert await Key(raw, "strict", "globex").queued() == []
        assert isinstance(await jobs.strict.submit(Task(key="globex")), Accepted)


async def test_a_second_job_of_the_id_of_one_that_runs_leaves_its_slot_alone(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "patient") as bench, probe(server.url) as raw:
        key = Key(raw, "patient")
        running = await bench.jobs.patient.create(Task(do="wait"), job_id="mine")
        await bench.until_running(running)
        with pytest.raises(JobExists):
            await bench.jobs.patient.create(Task(), job_id="mine")
        assert (await key.active(), await key.queued()) == (["mine"], [])


async def test_a_job_of_the_id_of_one_that_is_over_leaves_no_place_behind(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        ref = await jobs.strict.create(Task(), job_id="mine")
        await ref.cancel()
        with pytest.raises(JobExists):
            await jobs.strict.create(Task(), job_id="mine")
        assert await Key(raw, "strict").queued() == []


async def test_of_two_jobs_of_one_id_at_once_one_is_created_and_has_its_place(
    server: EmbeddedServer,
) -> None:
    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        key, held = Key(raw, "patient"), Held(way, KEY_WRITE_ANSWERED)
        slower = asyncio.create_task(jobs.patient.create(Task(), job_id="twin"))
        await held.until_still()
        faster = await others.patient.create(Task(), job_id="twin")
        way.thaw()
        with pytest.raises(JobExists):
            await slower
        assert await raw.kinds(faster) == ["created"]
        assert await key.queued() == ["twin"]


async def test_a_payload_that_is_too_large_leaves_no_place_behind(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        with pytest.raises(PayloadTooLarge):
            await jobs.strict.create(Task(text=TOO_MUCH))
        assert await Key(raw, "strict").queued() == []
        assert await events_in_log(raw) == 0
        assert isinstance(await jobs.strict.submit(Task()), Accepted)


async def test_a_payload_that_is_too_large_costs_no_other_job_of_its_id_its_place(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        await jobs.patient.create(Task(), job_id="mine")
        with pytest.raises(PayloadTooLarge):
            await jobs.patient.create(Task(text=TOO_MUCH), job_id="mine")
        assert await Key(raw, "patient").queued() == ["mine"]


@pytest.mark.parametrize(
    ("text", "job_id", "error"), [(TOO_MUCH, None, PayloadTooLarge), ("", "known", JobExists)]
)
async def test_a_job_that_cannot_be_created_takes_nobodys_place(
    server: EmbeddedServer, text: str, job_id: str | None, error: type[JobsError]
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "newest")
        await jobs.newest.create(Task(key="globex"), job_id="known")
        waiting = await jobs.newest.create(Task())
        before = (await key.state()).queued
        with pytest.raises(error):
            await jobs.newest.create(Task(text=text), job_id=job_id)
        assert await raw.kinds(waiting) == ["created"]
        assert (await key.state()).queued == before


@pytest.mark.parametrize("lost", [KEY_WRITE_ANSWERED, EVENT_ANSWERED], ids=["place", "job"])
async def test_an_answer_that_is_lost_makes_neither_two_places_nor_two_jobs(
    server: EmbeddedServer, lost: bytes
) -> None:
    losses: list[bytes] = []

    def lose() -> Then:
        losses.append(lost)
        return Then.CUT

    async with (
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
        probe(server.url) as raw,
    ):
        way.when_server_sends(lost, lose)
        ref = await jobs.patient.create(Task())
        assert losses
        assert await Key(raw, "patient").queued() == [ref.id]
        assert await raw.kinds(ref) == ["created"]
        assert await events_in_log(raw) == 1


@pytest.mark.parametrize("lost", [KEY_WRITE_ANSWERED, EVENT_ANSWERED], ids=["place", "jobs"])
async def test_an_answer_that_is_lost_replaces_one_job_once(
    server: EmbeddedServer, lost: bytes
) -> None:
    losses: list[bytes] = []

    def lose() -> Then:
        losses.append(lost)
        return Then.CUT

    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        first = await others.replace.create(Task())
        second = await others.replace.create(Task())
        way.when_server_sends(lost, lose)
        outcome = await jobs.replace.submit(Task())
        assert losses
        assert isinstance(outcome, Replaced)
        assert outcome.replaced_job_id == first.id
        assert await raw.kinds(first) == ["created", "skipped"]
        assert await raw.kinds(second) == ["created"]
        assert await raw.kinds(outcome.ref) == ["created"]
        assert await Key(raw, "replace").queued() == [second.id, outcome.ref.id]


async def test_an_answer_that_is_lost_while_others_use_the_key_replaces_one_job_once(
    server: EmbeddedServer,
) -> None:
    def lose() -> Then:
        way.refuse()
        return Then.CUT

    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        key = Key(raw, "replace")
        first, second = [await others.replace.create(Task()) for _ in range(2)]
        way.when_server_sends(KEY_WRITE_ANSWERED, lose)
        submitting = asyncio.create_task(jobs.replace.submit(Task(), job_id="new"))
        await key.until_queued(second.id, "new")
        await second.cancel()
        way.admit()
        outcome = await submitting
        assert isinstance(outcome, Replaced)
        assert outcome.replaced_job_id == first.id
        assert await raw.kinds(first) == ["created", "skipped"]
        assert await key.queued() == ["new"]


async def test_a_server_that_is_gone_is_not_waited_for_without_end(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "REQUEST_TIMEOUT", 0.3)
    async with helpdesk(server.url) as (jobs, _):
        server.kill()
        with pytest.raises(NotConfirmed, match=r"within 0\.3 s") as gone:
            await jobs.strict.create(Task(), job_id="mine")
        assert gone.value.job_id == "mine"


async def test_many_jobs_with_keys_share_one_timeout_while_the_server_is_away(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "REQUEST_TIMEOUT", 1.0)
    monkeypatch.setattr(submission, "_MAX_IN_FLIGHT", 2)
    async with helpdesk(server.url) as (jobs, _):
        server.kill()
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(SomeNotCreated) as gone:
                await jobs.strict.create_many([Task(key=str(n)) for n in range(100)])
        assert {type(error) for error in gone.value.failed.values()} == {NotConfirmed}
        assert all("within 1 s" in str(error) for error in gone.value.failed.values())
        assert len(gone.value.failed) == 100


async def test_jobs_whose_timeout_has_passed_reserve_nothing(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "_MAX_IN_FLIGHT", 2)
    async with (
        helpdesk(server.url),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        many = [Task(key=str(n)) for n in range(20)]
        await jobs.roomy.create_many(many)  # so that no place is read before it is taken
        sent: list[str] = []
        way.freeze()
        way.on_message(sent.append)
        with monkeypatch.context() as short_timeout:
            short_timeout.setattr(submission, "REQUEST_TIMEOUT", 0.5)
            with pytest.raises(SomeNotCreated) as gone:
                await jobs.roomy.create_many(many)
        assert len(gone.value.failed) == 20
        way.thaw()
        await jobs.plain.create(Task())  # sent after everything else
        assert len({subject for subject in sent if subject.startswith("$KV.")}) == 2


async def test_a_job_that_was_not_confirmed_keeps_its_place_for_it_may_be_there(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        key, held = Key(raw, "strict"), Held(way, KEY_WRITE_ANSWERED)
        with monkeypatch.context() as short_timeout:
            short_timeout.setattr(submission, "REQUEST_TIMEOUT", 0.5)
            with pytest.raises(NotConfirmed) as unsure:
                await jobs.strict.create(Task(), job_id="mine")
        await held.until_still()
        assert unsure.value.job_id == "mine"
        assert await key.queued() == ["mine"]
        with pytest.raises(KeyBusy):
            await others.strict.create(Task())


async def test_a_producer_that_dies_right_after_its_job_was_logged_loses_nothing(
    server: EmbeddedServer,
) -> None:
    async with (
        worker(server.url, "strict") as bench,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        way.when_server_sends(EVENT_ANSWERED, lambda: _die(creating))
        creating = asyncio.create_task(jobs.strict.create(Task(), job_id="mine"))
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert (await bench.jobs.strict.ref("mine").wait(timeout=10)).tries == 1
        await Key(raw, "strict").until_free()


def _die(creating: asyncio.Task[object]) -> Then:
    creating.cancel()
    return Then.SWALLOW
