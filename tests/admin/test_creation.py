"""Jobs that operators create through the admin runtime, by the rules of the queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.api.errors import Invalid, NotFound
from jobs_admin.api.views.creation import CreationOutcome, WouldBe
from tests.admin.admin_lab import AdminLab, admin_lab
from tests.cli.bank import PIN, BankJobs, Charge, Sync
from trellis_jobs import ActiveJob, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model.events import Created, Scheduled
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.redaction import REDACTED
from trellis_jobs.model.states import JobState

EU = {"origin": "eu"}
CHARGE = {"customer": "acme", "cents": 5, "pin": PIN}


@pytest.fixture
async def bank(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[AdminLab]:
    """The workers of the bank have published their contracts, and are gone."""
    async with admin_lab(server.url, tmp_path) as lab:
        async with attended(server.url):
            pass
        yield lab


def attended(url: str) -> AbstractAsyncContextManager[object]:
    """Workers of the bank."""
    service = Service(BankJobs)

    async def done(_: ActiveJob[Any]) -> None: ...

    async def charge(job: ActiveJob[Charge]) -> str:
        return job.payload.customer

    service.jobs.charge.handle(charge)
    service.jobs.sync.handle(done)
    service.jobs.merge.handle(done)
    service.jobs.newest.handle(done)
    service.jobs.brief.handle(done)
    return service.connect(url, workers=Workers())


async def first_event(lab: AdminLab, job: JobAddress) -> Created | Scheduled:
    connection = lab.stranger.connection
    log = EventLog(connection, await detect_features(connection))
    event = (await log.history(job))[0].event
    assert isinstance(event, Created | Scheduled)
    return event


async def test_a_job_of_an_operator_says_who_created_it_and_why(bank: AdminLab) -> None:
    created = await bank.client.creation.create(
        "bank", "charge", CHARGE, id="made", reason="the customer called", max_tries=7
    )
    assert (created.outcome, created.id) == (CreationOutcome.ACCEPTED, "made")
    job = await bank.client.get("made")
    assert (job.created_by, job.created_reason) == ("ann", "the customer called")
    assert (job.state, job.max_tries) == (JobState.PENDING, 7)
    assert job.payload == {"customer": "acme", "cents": 5, "pin": REDACTED}
    event = await first_event(bank, JobAddress("bank", "charge", "made"))
    assert (event.by, event.reason) == ("ann", "the customer called")
    assert event.request is not None
    assert event.payload == CHARGE


async def test_a_job_of_its_service_names_no_creator(bank: AdminLab) -> None:
    service = Service(BankJobs)
    async with service.connect(bank.url, workers=False):
        ref = await service.jobs.sync.create(Sync(origin="eu"))
        later = await service.jobs.sync.create(Sync(origin="us"), delay=60)
    stored = await bank.client.list_events(ref.id)
    assert stored.entries[0].event is not None
    assert not {"by", "byRequestId", "error"} & set(stored.entries[0].event)
    stored = await bank.client.list_events(later.id)
    assert stored.entries[0].event is not None
    assert not {"by", "byRequestId", "error"} & set(stored.entries[0].event)
    assert (await bank.client.get(ref.id)).created_by is None


async def test_a_worker_runs_a_job_of_an_operator(bank: AdminLab) -> None:
    async with attended(bank.url):
        created = await bank.client.creation.create("bank", "charge", CHARGE)
        assert created.id is not None
        service = Service(BankJobs)
        async with service.connect(bank.url, workers=False):
            assert await service.jobs.charge.ref(created.id).wait(timeout=20) == "acme"


async def test_a_delayed_job_keeps_its_creator_when_it_is_moved_and_released(
    bank: AdminLab,
) -> None:
    await bank.client.creation.create(
        "bank", "sync", EU, id="later", delay_ms=3_600_000, reason="tonight"
    )
    assert (await bank.client.get("later")).state is JobState.SCHEDULED
    async with attended(bank.url):
        await bank.client.run_now("later", reason="now")
        service = Service(BankJobs)
        async with service.connect(bank.url, workers=False):
            await service.jobs.sync.ref("later").wait(timeout=20)
    job = await bank.client.get("later")
    assert (job.created_by, job.created_reason) == ("ann", "tonight")


async def test_problems_of_a_payload_have_paths(bank: AdminLab) -> None:
    wrong = {"cents": 0, "pin": "x"}
    with pytest.raises(Invalid) as refused:
        await bank.client.creation.create("bank", "charge", wrong, id="never")
    paths = {issue.path for issue in refused.value.issues}
    assert paths == {"/payload/customer", "/payload/cents"}
    assert "the payload is not valid for queue 'charge'" in str(refused.value)
    preview = await bank.client.creation.preview("bank", "charge", wrong)
    assert not preview.valid
    assert {issue.path for issue in preview.issues} == paths
    with pytest.raises(NotFound):
        await bank.client.get("never")


async def test_a_hidden_secret_does_not_become_the_secret_of_a_new_job(bank: AdminLab) -> None:
    hidden = {**CHARGE, "pin": REDACTED}
    with pytest.raises(Invalid, match="must be entered again: /pin") as refused:
        await bank.client.creation.create("bank", "charge", hidden, id="never")
    assert [issue.path for issue in refused.value.issues] == ["/payload/pin"]
    preview = await bank.client.creation.preview("bank", "charge", hidden)
    assert [issue.path for issue in preview.issues] == ["/payload/pin"]
    with pytest.raises(NotFound):
        await bank.client.get("never")


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"max_tries": 0}, "/maxTries"),
        ({"timeout_ms": 0}, "/timeoutMs"),
        ({"visibility_ms": 500}, "/visibilityMs"),
        ({"payload_version": 3}, "/payloadVersion"),
        ({"delay_ms": 1000, "run_at": datetime(2030, 1, 1, tzinfo=UTC)}, "/delayMs"),
        ({"delay_ms": 2000, "deadline": datetime(2020, 1, 1, tzinfo=UTC)}, "/deadline"),
    ],
)
async def test_an_option_that_the_queue_refuses_is_named(
    bank: AdminLab, options: dict[str, object], path: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await bank.client.creation.create("bank", "sync", EU, **options)  # type: ignore[arg-type]
    assert [issue.path for issue in refused.value.issues] == [path]


async def test_a_queue_without_a_contract_is_not_found(bank: AdminLab) -> None:
    with pytest.raises(NotFound, match="bank/charge"):
        await bank.client.creation.create("bank", "nosuch", EU)
    with pytest.raises(NotFound):
        await bank.client.creation.contract("bank", "nosuch")


async def test_an_id_is_used_once(bank: AdminLab) -> None:
    await bank.client.creation.create("bank", "charge", CHARGE, id="one")
    again = await bank.client.creation.create("bank", "charge", CHARGE, id="one")
    assert (again.outcome, again.id) == (CreationOutcome.EXISTS, "one")
    preview = await bank.client.creation.preview("bank", "charge", CHARGE, id="one")
    assert preview.would is WouldBe.EXISTS


async def test_the_policy_of_a_queue_is_previewed_and_then_applied(bank: AdminLab) -> None:
    creation = bank.client.creation
    free = await creation.preview("bank", "sync", EU)
    assert free.key is not None
    assert (free.key.key, free.key.max_active, free.key.max_queued) == ("origin:eu", 1, 1)
    assert len(free.key.key_hash) == 64
    assert (free.would, free.key.active, free.key.queued) == (WouldBe.WAIT, 0, 0)
    first = await creation.create("bank", "sync", EU)
    assert first.key == "origin:eu"
    second = await creation.preview("bank", "sync", EU)
    assert (second.would, second.behind) == (WouldBe.WAIT, 1)
    await creation.create("bank", "sync", EU)
    third = await creation.preview("bank", "sync", EU)
    assert (third.would, third.reason) == (WouldBe.REJECT, "queue-depth")
    rejected = await creation.create("bank", "sync", EU)
    assert (rejected.outcome, rejected.id) == (CreationOutcome.REJECTED, None)
    assert (rejected.queued, rejected.existing_job_id) == (2, first.id)


async def test_a_full_key_coalesces_or_replaces_as_its_queue_says(bank: AdminLab) -> None:
    creation = bank.client.creation
    first = await creation.create("bank", "merge", EU)
    preview = await creation.preview("bank", "merge", EU)
    assert (preview.would, preview.existing_job_id) == (WouldBe.COALESCE, first.id)
    merged = await creation.create("bank", "merge", EU)
    assert (merged.outcome, merged.id) == (CreationOutcome.COALESCED, first.id)
    oldest = await creation.create("bank", "newest", EU)
    await creation.create("bank", "newest", EU)
    preview = await creation.preview("bank", "newest", EU)
    assert (preview.would, preview.replaced_job_id) == (WouldBe.REPLACE, oldest.id)
    replacing = await creation.create("bank", "newest", EU)
    assert (replacing.outcome, replacing.replaced_job_id) == (
        CreationOutcome.REPLACED,
        oldest.id,
    )


async def test_a_preview_writes_nothing(bank: AdminLab) -> None:
    await bank.client.creation.create("bank", "merge", EU)
    extent = await log_end(bank)
    for _ in range(2):
        await bank.client.creation.preview("bank", "merge", EU)
        await bank.client.creation.preview("bank", "charge", CHARGE, delay_ms=1000)
    assert await log_end(bank) == extent


async def log_end(bank: AdminLab) -> tuple[int, int]:
    """The last sequences of the log and of the bucket of keys."""
    connection = bank.stranger.connection
    log = await api.request(connection, "STREAM.INFO.JOBS")
    keys = await api.request(connection, "STREAM.INFO.KV_JOBS_KEYS")
    return int(log["state"]["last_seq"]), int(keys["state"]["last_seq"])


async def test_a_preview_tells_the_deadline_and_the_time(bank: AdminLab) -> None:
    preview = await bank.client.creation.preview("bank", "brief", "x", delay_ms=60_000)
    assert preview.would is WouldBe.DELAY
    assert preview.run_at is not None
    assert preview.deadline == preview.run_at + timedelta(seconds=60)
    assert preview.payload == "x"


async def test_the_contract_of_a_queue_has_what_a_form_needs(bank: AdminLab) -> None:
    charge = await bank.client.creation.contract("bank", "charge")
    assert charge.payload.json_schema["properties"]["cents"]["minimum"] == 1
    assert charge.payload.secrets == ("/pin",)
    assert PIN not in charge.encode().decode()
    assert charge.result.json_schema == {"type": "string"}
    assert charge.options["maxDeliver"] == 2
    assert charge.docs == {"title": "Charge"}
    sync = await bank.client.creation.contract("bank", "sync")
    assert sync.key is not None
    assert (sync.key.template, sync.key.max_queued) == (("origin", "/origin"), 1)
    assert sync.key.when_full == "reject"


async def test_recent_payloads_are_listed_once_and_without_secrets(bank: AdminLab) -> None:
    creation = bank.client.creation
    for customer in ("a", "b", "a"):
        await creation.create("bank", "charge", {**CHARGE, "customer": customer})
    found = await creation.recent_payloads("bank", "charge")
    assert [each.payload for each in found] == [
        {"customer": "a", "cents": 5, "pin": REDACTED},
        {"customer": "b", "cents": 5, "pin": REDACTED},
    ]
    assert [each.jobs for each in found] == [2, 1]
    assert found[0].secrets == ("/pin",)
    assert len(await creation.recent_payloads("bank", "charge", limit=1)) == 1
    assert await creation.recent_payloads("bank", "nosuch") == ()


async def test_a_large_payload_can_be_created(bank: AdminLab) -> None:
    large = "x" * 300_000
    created = await bank.client.creation.create("bank", "brief", large)
    assert created.id is not None
    assert (await bank.client.get(created.id)).payload == large
    with pytest.raises(Invalid) as refused:
        await bank.client.creation.create("bank", "brief", "x" * (1_048_576 - 300))
    assert [issue.path for issue in refused.value.issues] == ["/payload"]
