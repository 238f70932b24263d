"""Operators list, make, pause, resume, trigger and delete schedules."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid, NotFound, Unexpected
from jobs_admin.api.inputs import QueuePageInput
from jobs_admin.api.views.health import Mode
from jobs_admin.api.views.schedules import ScheduleOutcome, ScheduleView
from jobs_admin.rpc.router import Caller
from jobs_admin.rpc.schedule_methods import ScheduleMethods
from jobs_admin.schedules.actions import ScheduleActions
from jobs_admin.schedules.registry import ScheduleRegistry
from jobs_admin.workers.registry import WorkerRegistry
from tests.admin.admin_lab import daemon_at, stranger_at
from tests.admin.schedule_lab import (
    ACME,
    NIGHTLY,
    NOWHERE,
    OFFICE,
    PULSE,
    SERVICE,
    Office,
    office,
    staffed,
)
from tests.support.example_service import example_jobs
from tests.support.facts import until
from tests.support.servers import start_version
from trellis_jobs import ActiveJob, Every, Service
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic, new_id, utc_now
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.control.record_feed import ReadingBegins
from trellis_jobs.jetstream.control.records import ControlRecords, Record
from trellis_jobs.jetstream.schedules.schedule_feed import ScheduleFeed
from trellis_jobs.jetstream.schedules.schedules import Schedules
from trellis_jobs.model import subjects
from trellis_jobs.model.redaction import REDACTED
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.changes import Author, create
from trellis_jobs.model.schedules.definition import CatchUp, Overlap
from trellis_jobs.model.schedules.record import Origin
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

HOUR = timedelta(hours=1)
NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
PAYLOAD = {"text": "acme"}


async def put_acme(admin: AdminClient, **changes: Any) -> Any:
    payload = changes.pop("payload", PAYLOAD)
    timing = {"cron": "0 9 * * *", "time_zone": "America/New_York"}
    return await admin.schedules.put(ACME, payload, **{**timing, **changes})


async def test_declared_schedules_are_listed_with_their_next_tick(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with staffed(server.url, tmp_path) as there:
        page = await there.admin.schedules.list()
        assert [each.address for each in page.entries] == [str(NIGHTLY), str(PULSE)]
        nightly, pulse = page.entries
        assert nightly.description == "At 02:30 every day (Europe/Berlin)"
        assert (nightly.origin, nightly.paused, nightly.problem) == (Origin.CONTRACT, None, None)
        assert (nightly.last_run, nightly.due_since, nightly.overdue) == (None, None, False)
        assert nightly.next is not None
        assert nightly.next.tick > datetime.now(UTC)
        assert pulse.description == "Every 1 h"
        assert pulse.next is not None
        assert (pulse.next.tick.minute, pulse.next.tick.second) == (0, 0)


async def test_lists_are_paged_and_filtered(server: EmbeddedServer, tmp_path: Path) -> None:
    async with staffed(server.url, tmp_path) as there:
        names = [f"customer-{number:02}" for number in range(25)]
        for name in names:
            address = ScheduleAddress(SERVICE, "keyed", name)
            await there.admin.schedules.put(address, {"key": name}, every=HOUR)
        found = [each async for each in there.admin.schedules.all(type="keyed", page=10)]
        assert [each.name for each in found] == names
        page = await there.admin.schedules.list(service=SERVICE, limit=3)
        assert (len(page.entries), page.count, page.next_offset) == (3, 27, 3)
        assert (await there.admin.schedules.list(service="another")).count == 0


async def test_a_schedule_is_shown_with_ten_ticks_its_policies_and_its_payload(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with staffed(server.url, tmp_path) as there:
        nightly = await there.admin.schedules.get(NIGHTLY)
        ticks = [each.tick for each in nightly.next_ticks]
        assert len(ticks) == 10
        assert ticks == sorted(set(ticks))
        assert [each.at for each in nightly.next_ticks] == ticks, "it has no jitter"
        assert nightly.payload == {"do": "answer", "text": "night", "key": "acme", "seconds": 0.0}
        assert nightly.definition is not None
        assert nightly.definition.cron == "30 2 * * *"
        assert (nightly.on_missed_ticks, nightly.on_overlap) == (
            "one job, for the newest",
            "the new job is created beside it",
        )
        assert len((await there.admin.schedules.get(PULSE, ticks=3)).next_ticks) == 3
        with pytest.raises(NotFound, match=r"there is no schedule office/report/nowhere"):
            await there.admin.schedules.get(NOWHERE)


async def test_a_schedule_is_made_changed_and_deleted_at_run_time(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with staffed(server.url, tmp_path) as there:
        made = await put_acme(there.admin, jitter=timedelta(minutes=5))
        assert (made.outcome, made.payload_checked) == (ScheduleOutcome.CREATED, True)
        assert (made.schedule.origin, made.schedule.by) == (Origin.RUNTIME, "ann")
        first = made.schedule.next_ticks[0]
        assert first.tick <= first.at <= first.tick + timedelta(minutes=5)

        again = await put_acme(there.admin, jitter=timedelta(minutes=5))
        assert again.outcome is ScheduleOutcome.UNCHANGED

        changed = await there.admin.schedules.put(
            ACME, PAYLOAD, every=HOUR, catch_up=CatchUp.ALL, max_catch_up=5, overlap=Overlap.REPLACE
        )
        assert changed.outcome is ScheduleOutcome.CHANGED
        assert changed.schedule.on_missed_ticks == "a job for each, at most 5"
        assert (await there.jobs.report.schedules.get("acme")).definition.overlap is Overlap.REPLACE

        await there.admin.schedules.delete(ACME)
        assert str(ACME) not in {each.address async for each in there.admin.schedules.all()}
        with pytest.raises(NotFound):
            await there.admin.schedules.delete(ACME)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"payload": {"seconds": "soon"}}, "the payload is not valid for queue report: seconds"),
        ({"payload": None}, "the payload is not valid for queue report: "),
        ({"cron": "61 9 * * *"}, "the minute field '61' is not valid"),
        ({"cron": "nine o'clock"}, "it has 2 fields"),
        ({"time_zone": "Berlin"}, "time zone 'Berlin' is not known: Europe/Berlin?"),
        ({"start": NEW_YEAR + HOUR, "end": NEW_YEAR}, "is before start"),
        ({"jitter": timedelta(days=2)}, "jitter is between 0 and 24 h"),
        ({"cron": "*/5 * * * *", "jitter": HOUR}, "jitter (1 h) is longer than the shortest time"),
    ],
)
async def test_a_wrong_definition_is_refused_and_says_why(
    open_office: Office, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await put_acme(open_office.admin, **arguments)
    assert problem in refused.value.message
    with pytest.raises(NotFound):
        await open_office.admin.schedules.get(ACME)


@pytest.fixture
async def open_office(server: EmbeddedServer, tmp_path: Path) -> Any:
    async with staffed(server.url, tmp_path) as there:
        yield there


async def test_a_payload_without_the_key_of_its_queue_is_refused(open_office: Office) -> None:
    keyed = ScheduleAddress(SERVICE, "keyed", "acme")
    with pytest.raises(Invalid) as refused:
        await open_office.admin.schedules.put(keyed, {"key": None}, every=HOUR)
    assert refused.value.issues[0].path == "/payload"


async def test_a_schedule_of_a_queue_without_workers_is_refused(open_office: Office) -> None:
    with pytest.raises(NotFound, match="there is no queue office/unknown"):
        await open_office.admin.schedules.put(
            ScheduleAddress(SERVICE, "unknown", "acme"), {}, every=HOUR
        )


async def test_declared_schedules_are_paused_and_not_changed_or_deleted(
    open_office: Office,
) -> None:
    for change in (
        open_office.admin.schedules.put(NIGHTLY, PAYLOAD, every=HOUR),
        open_office.admin.schedules.delete(NIGHTLY),
    ):
        with pytest.raises(Invalid, match="is declared in the code of its service: change it"):
            await change
    paused = await open_office.admin.schedules.pause(NIGHTLY, reason="holidays")
    assert paused.schedule.paused is not None


async def test_a_paused_schedule_says_by_whom_why_and_until_when(open_office: Office) -> None:
    admin = open_office.admin
    paused = (await admin.schedules.pause(PULSE, reason="the bank is away", duration=HOUR)).schedule
    assert paused.paused is not None
    assert (paused.paused.by, paused.paused.reason) == ("ann", "the bank is away")
    assert paused.paused.until is not None
    assert all(each.tick > paused.paused.until for each in paused.next_ticks)

    for_good = (await admin.schedules.pause(PULSE, reason="the bank is closed")).schedule
    assert for_good.paused is not None
    assert (for_good.paused.until, for_good.next) == (None, None)
    assert len(for_good.next_ticks) == 10, "those that it would have"

    assert (await admin.schedules.resume(PULSE)).outcome is ScheduleOutcome.CHANGED
    resumed = await admin.schedules.resume(PULSE)
    assert (resumed.outcome, resumed.schedule.paused) == (ScheduleOutcome.UNCHANGED, None)


async def test_a_pause_that_would_be_over_is_refused(open_office: Office) -> None:
    past = datetime.now(UTC) - HOUR
    with pytest.raises(Invalid, match="the pause would end in the past"):
        await open_office.admin.schedules.pause(PULSE, reason="x", until=past)


async def test_a_triggered_schedule_has_a_worker_create_the_job(open_office: Office) -> None:
    admin = open_office.admin
    await admin.schedules.pause(PULSE, reason="also while it is paused")
    triggered = await admin.schedules.trigger(PULSE)
    assert triggered.workers == 1

    async def completed() -> bool:
        runs = (await admin.schedules.get(PULSE)).runs
        return bool(runs) and runs[-1].state is JobState.COMPLETED

    await until(completed, "its job completed, and is shown with the schedule")
    run = (await admin.schedules.get(PULSE)).runs[-1]
    assert (run.job_id, run.triggered, run.by, run.waits) == (triggered.job_id, True, "ann", False)
    job = await admin.get(triggered.job_id)
    assert (job.schedule, job.run_at) == ("pulse", run.tick)
    assert job.payload["text"] == "pulse"  # type: ignore[index,call-overload]


async def test_without_a_worker_a_triggered_job_is_created_when_one_starts(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with office(server.url):
        pass
    async with (
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url, by="ann") as admin,
    ):

        async def has_no_worker() -> bool:
            return (await admin.schedules.trigger(PULSE)).workers == 0

        await until(has_no_worker, "the worker is gone")
        run = (await admin.schedules.get(PULSE)).runs[-1]
        assert (run.waits, run.state) == (True, None)
        async with office(server.url) as worker:
            await until(lambda: run.job_id in worker.begun, "the job runs")


@pytest.mark.parametrize("version", ["2.11.11", "2.12.8", "2.14.6"])
async def test_older_servers_list_make_trigger_and_delete_schedules(
    version: str, tmp_path: Path
) -> None:
    with start_version(version) as older:
        async with staffed(older.url, tmp_path) as there:
            await there.admin.schedules.put(ACME, PAYLOAD, every=timedelta(seconds=2))
            triggered = await there.admin.schedules.trigger(NIGHTLY)
            await until(lambda: triggered.job_id in there.worker.begun, "the triggered job runs")

            async def has_run() -> bool:
                runs = (await there.admin.schedules.get(ACME)).runs
                return any(run.state is JobState.COMPLETED for run in runs)

            await until(has_run, "a tick has a job")
            await there.admin.schedules.delete(ACME)
            assert (await there.admin.schedules.list()).count == 2


async def test_ticks_create_jobs_that_are_shown_as_runs(open_office: Office) -> None:
    admin = open_office.admin
    await admin.schedules.put(ACME, PAYLOAD, every=timedelta(seconds=1))

    async def has_run() -> bool:
        return sum(run.state is JobState.COMPLETED for run in await runs()) >= 2

    async def runs() -> Any:
        return (await admin.schedules.get(ACME)).runs

    await until(has_run, "two ticks have jobs that completed")
    for run in await runs():
        assert run.tick.microsecond == 0
        assert run.job_id is not None


async def test_what_an_older_version_cannot_read_is_shown_and_can_be_deleted(
    open_office: Office,
) -> None:
    admin = open_office.admin
    await write_record(open_office, ACME, b'{"schedule":"of a newer version"}')
    listed = await one_of([each async for each in admin.schedules.all()], ACME)
    assert listed.problem is not None
    assert (await admin.schedules.get(ACME)).problem == listed.problem
    with pytest.raises(Invalid, match="its record cannot be read"):
        await put_acme(admin)
    with pytest.raises(Invalid, match="its record cannot be read"):
        await admin.schedules.trigger(ACME)
    await admin.schedules.delete(ACME)
    assert (await put_acme(admin)).outcome is ScheduleOutcome.CREATED


async def one_of(listed: list[ScheduleView], address: ScheduleAddress) -> ScheduleView:
    return next(each for each in listed if each.address == str(address))


async def write_record(there: Office, address: ScheduleAddress, data: bytes) -> None:
    records = ControlRecords(there.raw.connection, supports_ttl=True)
    subject = subjects.schedule(address.service, address.job_type, address.schedule)
    assert isinstance(await records.write(Record(subject, 0, data)), int)


async def test_one_replica_lists_what_another_has_just_changed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        office(server.url),
        daemon_at(server.url, tmp_path / "one.sqlite"),
        daemon_at(server.url, tmp_path / "two.sqlite"),
        daemon_at(server.url, tmp_path / "two.sqlite", mode=Mode.RPC_ONLY),
        AdminClient.connect(server.url, by="ann") as admin,
    ):
        for number in range(30):
            address = ScheduleAddress(SERVICE, "report", f"n-{number}")
            await admin.schedules.put(address, PAYLOAD, every=HOUR)
            assert (await admin.schedules.list(type="report")).count == 3
            await admin.schedules.delete(address)
            assert (await admin.schedules.list(type="report")).count == 2


async def test_a_list_waits_for_changes_that_the_admin_runtime_has_not_read_yet(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with staffed(server.url, tmp_path) as there:
        registry, clock = ScheduleRegistry(monotonic), there.daemon.clock
        alarms = Alarms(there.raw.connection, there.raw.features, clock.last_known)
        methods = ScheduleMethods(
            connection=there.raw.connection,
            registry=registry,
            actions=ScheduleActions(Schedules(there.records, alarms)),
            readers=there.daemon.readers,
            workers=WorkerRegistry(monotonic),
            clock=clock,
            new_id=new_id,
            grace=HOUR,
            max_reply_bytes=lambda: there.raw.connection.max_payload,
        )
        for each in (ReadingBegins(is_complete=True), None):
            registry.apply(each)
        request = QueuePageInput.model_validate({"limit": 10})
        listing = asyncio.create_task(methods.list_schedules(request, Caller("1", None)))
        for _ in range(20):
            await there.raw.connection.flush()
        assert not listing.done()
        async with aclosing(ScheduleFeed(there.raw.connection).changes()) as changes:
            async for change in changes:
                registry.apply(change)
                if change is None:
                    break
        assert (await listing).count == 2


async def test_schedules_that_were_purged_while_the_admin_runtime_was_away_are_not_listed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with staffed(server.url, tmp_path) as there:
        await put_acme(there.admin)
        assert (await there.admin.schedules.list()).count == 3
        subject = subjects.schedule(SERVICE, "report", "acme")
        await api.request(there.raw.connection, "STREAM.PURGE.JOBS_CONTROL", {"filter": subject})
        await _reconnect(there)

        async def is_gone() -> bool:
            return (await there.admin.schedules.list()).count == 2

        await until(is_gone, "all records were read again")


async def _reconnect(there: Office) -> None:
    """Ends the consumers by which admin runtimes follow the records."""
    listed = await api.request(there.raw.connection, "CONSUMER.LIST.JOBS_CONTROL", {"offset": 0})
    for consumer in listed["consumers"]:
        if consumer["name"].startswith("schedules-"):
            await api.request(
                there.raw.connection, f"CONSUMER.DELETE.JOBS_CONTROL.{consumer['name']}"
            )


async def test_without_the_stream_of_alarms_the_error_says_what_to_do(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with staffed(server.url, tmp_path) as there:
        await api.request(there.raw.connection, f"STREAM.DELETE.JOBS_ALARMS_{SERVICE}")
        with pytest.raises(Unexpected, match=r"JOBS_ALARMS_office is missing: create it with"):
            await put_acme(there.admin)
        with pytest.raises(NotFound):
            await there.admin.schedules.get(ACME)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "/: Value error, give either cron or everyMs"),
        ({"cron": "@daily", "everyMs": 1000}, "give either cron or everyMs"),
        ({"everyMs": 1000, "timeZone": "UTC"}, "timeZone needs cron"),
        ({"everyMs": 1000, "overlap": "often"}, "/overlap: "),
        ({"everyMs": 10**18}, "/everyMs: "),
        ({"everyMs": 10}, "an interval is at least 1 s"),
        ({"everyMs": 1000, "every": 5}, "/every: Extra inputs are not permitted"),
    ],
)
async def test_bad_requests_name_the_field(
    open_office: Office, body: dict[str, Any], problem: str
) -> None:
    named = {"service": SERVICE, "type": "report", "name": "acme"}
    async with stranger_at(open_office.url) as stranger:
        answer = await stranger.ask("Jobs.PutSchedule", {**named, "payload": {}, **body})
    assert answer["type"] == "ValidationError"
    assert problem in answer["message"]


async def test_too_many_triggers_are_refused(server: EmbeddedServer, tmp_path: Path) -> None:
    async with office(server.url):
        pass
    async with (
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url, by="ann") as admin,
    ):
        for _ in range(100):
            await admin.schedules.trigger(PULSE)
        with pytest.raises(Invalid, match="100 triggered jobs have not been created yet"):
            await admin.schedules.trigger(PULSE)


async def test_changes_of_several_operators_at_once_are_all_made(open_office: Office) -> None:
    admin = open_office.admin
    triggered = await asyncio.gather(*(admin.schedules.trigger(PULSE) for _ in range(8)))
    ids = {each.job_id for each in triggered}
    await until(lambda: ids <= set(open_office.worker.begun), "every triggered job ran")
    assert len(ids) == 8


class Login(BaseModel):
    user: str
    password: SecretStr


async def test_secrets_of_a_payload_are_not_shown(server: EmbeddedServer, tmp_path: Path) -> None:
    jobs = example_jobs("bank", Login, str, sync={})
    service, seen = Service(jobs), list[str]()

    @service.jobs.sync.handle
    async def sync(job: ActiveJob[Login]) -> str:
        seen.append(job.payload.password.get_secret_value())
        return ""

    address = ScheduleAddress("bank", "sync", "acme")
    async with (
        service.connect(server.url),
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url, by="ann") as admin,
    ):
        made = await admin.schedules.put(address, {"user": "a", "password": "pin-9"}, every=HOUR)
        got = await admin.schedules.get(address)
        for shown in (made.schedule, got):
            assert "pin-9" not in shown.model_dump_json()
            assert shown.payload == {"user": "a", "password": REDACTED}
        assert got.payload is not None
        with pytest.raises(Invalid, match="must be entered again: /password"):
            await admin.schedules.put(address, got.payload, every=2 * HOUR)
        await admin.schedules.trigger(address)
        await until(lambda: seen == ["pin-9"], "the handler gets the secret")


async def test_a_payload_that_does_not_fit_into_a_reply_is_left_out(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Older versions stored payloads as large as a message."""
    async with staffed(server.url, tmp_path) as there:
        text = "x" * (there.raw.connection.max_payload - 2_000)
        small = OFFICE.contract.queues["report"].schedules["pulse"]
        large = replace(small, payload={"text": text})
        made = create(ACME, large, author=Author(Origin.RUNTIME, "ann"), now=utc_now())
        await there.records.write(made.record, 0)
        shown = await there.admin.schedules.get(ACME)
        assert (shown.payload, shown.omitted) == (None, ("payload",))
        assert (await there.admin.schedules.list()).count == 3


async def test_a_schedule_whose_queue_no_worker_knows_says_so(open_office: Office) -> None:
    gone = ScheduleAddress(SERVICE, "gone", "daily")
    definition = OFFICE.contract.queues["report"].schedules["pulse"]
    made = create(gone, definition, author=Author(Origin.RUNTIME, "ann"), now=utc_now())
    await open_office.records.write(made.record, 0)

    async def unknown() -> set[str]:
        listed = (await open_office.admin.schedules.list()).entries
        return {each.address for each in listed if each.queue_unknown}

    await until(unknown, "the admin runtime knows the worker")
    assert await unknown() == {str(gone)}
    assert (await open_office.admin.schedules.get(gone)).queue_unknown
    assert not (await open_office.admin.schedules.get(PULSE)).queue_unknown
    sections = (await open_office.admin.doctor()).sections
    assert f"{gone} is not fired: no running worker knows the queue" in [
        finding.message for section in sections for finding in section.findings
    ]


class _Login(BaseModel):
    password: str


class _SecretLogin(BaseModel):
    password: SecretStr


async def test_a_field_that_became_a_secret_later_is_hidden(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    acme = ScheduleAddress("bank", "sync", "acme")
    old = Service(example_jobs("bank", _Login, str, sync={}))
    async with old.connect(server.url, workers=False):
        await old.jobs.sync.schedules.put(
            "acme", Every(3600, payload=_Login.model_validate({"password": "pin-9"}))
        )
    new = Service(example_jobs("bank", _SecretLogin, str, sync={}))

    @new.jobs.sync.handle
    async def sync(job: ActiveJob[_SecretLogin]) -> str:
        return job.payload.password.get_secret_value()

    async with (
        new.connect(server.url),
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url, by="ann") as admin,
    ):
        shown = await admin.schedules.get(acme)
        assert shown.payload == {"password": REDACTED}
