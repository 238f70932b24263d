"""Jobs.ListAudit: who did what, when and why, from the events of jobs and from records."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.contract import RPCS, Capability
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.audit import AuditEntry, AuditSource, AuditTarget, AuditVerb
from jobs_admin.api.views.operations import OperationState, OperationVerb, is_operation_id
from jobs_admin.audit.changes import queue_change
from jobs_admin.audit.trail import RETENTION, AuditTrail
from jobs_admin.projection.operator_actions import operator_action
from jobs_admin.rpc.audited import RECORDED_AS_EVENTS, RECORDS
from tests import given
from tests.admin.admin_lab import AdminLab, daemon_at, time_passes
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import worker
from trellis_jobs.environment import new_id
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.control.records import ControlRecords
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.audit_recorder import AuditRecorder
from trellis_jobs.model.schedules.address import ScheduleAddress

HOUR = timedelta(hours=1)


async def listed(client: AdminClient, **wanted: str) -> list[AuditEntry]:
    page = await client.audit.list(**wanted)  # type: ignore[arg-type]
    assert page.problem is None
    assert page.count == len(page.entries)
    return list(page.entries)


def short(entry: AuditEntry) -> tuple[str | None, str, str, str | None, str | None]:
    return entry.by, entry.verb, entry.target, entry.id, entry.reason


async def test_changes_of_jobs_are_listed_newest_first_with_who_and_why(lab: AdminLab) -> None:
    first, second = await lab.jobs.work.create_many([Task(), Task()])
    await lab.client.reschedule(first.id, given.after(10**9), reason="after the sale")
    await lab.client.run_now(first.id)
    changed = await lab.client.cancel(second.id, reason="wrong order")
    entries = await listed(lab.client)
    assert [short(each) for each in entries] == [
        ("ann", "cancel", "job", second.id, "wrong order"),
        ("ann", "run-now", "job", first.id, None),
        ("ann", "reschedule", "job", first.id, "after the sale"),
    ]
    assert {(each.service, each.type, each.source) for each in entries} == {
        ("lab", "work", AuditSource.EVENT)
    }
    assert entries[0].seq == changed.seq
    assert all(each.request_id for each in entries)
    assert entries[0].at >= entries[1].at >= entries[2].at


async def test_what_a_service_does_with_its_own_jobs_is_not_in_the_audit(lab: AdminLab) -> None:
    first, second = await lab.jobs.work.create_many([Task(), Task()])
    await first.cancel("the customer changed their mind")
    changed = await lab.client.cancel(second.id)
    assert [each.id for each in await listed(lab.client)] == [second.id]
    assert changed.seq


@pytest.mark.parametrize(
    ("event", "verb"),
    [
        (given.cancelled(by="ann", request="r-1"), AuditVerb.CANCEL),
        (given.cancelled(by="ann", request=None), AuditVerb.CANCEL),
        (given.cancelled(by=given.REPORT.service, request=None), None),
        (given.cancelled(by=given.REPORT.service, request="r-1"), AuditVerb.CANCEL),
        (given.cancelled(by=None, request=None), None),
        (given.cancelled(by="ann", request="op-01J"), None),
        (given.dismissed(by="ann", request="r-1"), AuditVerb.DISMISS),
        (given.retried(by="ann", request="r-1"), AuditVerb.RETRY),
        (given.scheduled(by="ann", request="r-1"), AuditVerb.RESCHEDULE),
        (given.scheduled(by="ann", request="r-1", run_at=given.after(60)), AuditVerb.RUN_NOW),
        (given.created(by="ann", request="r-1"), AuditVerb.RUN_NOW),
        (given.created(), None),
        (given.scheduled(), None),
        (given.expired(by="janitor"), None),
    ],
)
def test_an_event_is_an_action_of_an_operator_or_not(
    event: e.Described | e.Decided, verb: AuditVerb | None
) -> None:
    assert operator_action(event, given.after(60)) is verb


@pytest.mark.parametrize(
    ("event", "verb"),
    [
        (given.created(by="ann", request="r-1"), AuditVerb.CREATE),
        (given.scheduled(by="ann", request="r-1"), AuditVerb.CREATE),
        (given.created(), None),
        (given.retried(by="ann", request="r-1"), AuditVerb.RETRY),
    ],
)
def test_the_first_event_of_a_job_by_an_operator_is_its_creation(
    event: e.Described, verb: AuditVerb | None
) -> None:
    """The first that is left of a job may be `retried`, if retention removed its earlier runs."""
    assert operator_action(event, given.after(60), is_first=True) is verb


async def test_a_job_that_an_operator_creates_is_listed_once(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        creation = lab.client.creation
        created = await creation.create("lab", "work", Task().model_dump(), reason="a complaint")
        page = await lab.client.audit.list(min_seq=created.seq or 0)
    [entry] = [each for each in page.entries if each.id == created.id]
    assert (entry.verb, entry.reason) == ("create", "a complaint")


async def test_pauses_of_queues_are_recorded(lab: AdminLab) -> None:
    async with worker(lab.url, "slow"):
        await lab.client.pause_queue("lab", "slow", reason="the bank is away")
        await lab.client.resume_queue("lab", "slow", reason="it is back")
    resumed, paused = await listed(lab.client, target=AuditTarget.QUEUE)
    assert short(paused) == ("ann", "pause", "queue", None, "the bank is away")
    assert short(resumed) == ("ann", "resume", "queue", None, "it is back")
    assert (paused.service, paused.type, paused.source) == ("lab", "slow", AuditSource.ADMIN)
    assert paused.request_id != resumed.request_id


async def test_an_operation_is_one_entry_however_many_jobs_it_changes(lab: AdminLab) -> None:
    refs = await lab.jobs.work.create_many([Task() for _ in range(5)])
    created = await lab.client.cancel(refs[0].id)
    operation = await lab.client.operate(
        OperationVerb.CANCEL, JobFilter(service="lab", type="work"), reason="clean up"
    )

    async def is_over() -> bool:
        found = await lab.client.get_operation(operation.id)
        return found.state is OperationState.DONE

    await until(is_over, "the operation is done")
    started, single = await listed(lab.client, verb="cancel")
    assert short(started) == ("ann", "cancel", "operation", operation.id, "clean up")
    assert (started.count, started.service, started.type) == (4, "lab", "work")
    assert (single.target, single.seq) == ("job", created.seq)
    assert is_operation_id(operation.id)


async def test_a_dry_run_is_not_recorded(lab: AdminLab) -> None:
    await lab.client.preview(OperationVerb.CANCEL)
    assert await listed(lab.client) == []


async def test_a_caller_cannot_hide_a_change_behind_the_id_of_an_operation(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    body = {"id": ref.id, "by": "eve"}
    await lab.stranger.ask("Jobs.Cancel", body, **{"request-id": "op-01JNOTHINGTOSEE"})
    [entry] = await listed(lab.client)
    assert (entry.by, entry.id) == ("eve", ref.id)
    assert not is_operation_id(entry.request_id)


async def test_who_has_seen_secrets_is_recorded(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    await lab.client.secrets(ref.id, reason="a complaint")
    [entry] = await listed(lab.client, verb="reveal")
    assert short(entry) == ("ann", "reveal", "job", ref.id, "a complaint")


async def test_changes_of_schedules_are_recorded(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        nightly = ScheduleAddress("lab", "work", "nightly")
        payload = Task().model_dump()
        await lab.client.schedules.put(nightly, payload, every=HOUR, reason="for Acme")
        await lab.client.schedules.pause(nightly, reason="holidays")
        await lab.client.schedules.resume(nightly, reason="January")
        triggered = await lab.client.schedules.trigger(nightly, reason="one is missing")
        await lab.client.schedules.delete(nightly, reason="Acme left")
    entries = await listed(lab.client, target=AuditTarget.SCHEDULE, service="lab", type="work")
    assert [(each.verb, each.reason) for each in entries] == [
        ("delete", "Acme left"),
        ("trigger", "one is missing"),
        ("resume", "January"),
        ("pause", "holidays"),
        ("put", "for Acme"),
    ]
    assert {each.id for each in entries} == {"nightly"}
    assert entries[1].job_id == triggered.job_id


async def test_entries_are_filtered_and_paged(lab: AdminLab) -> None:
    refs = await lab.jobs.work.create_many([Task() for _ in range(4)])
    async with worker(lab.url, "slow"):
        for ref in refs:
            await lab.client.cancel(ref.id)
            await lab.client.pause_queue("lab", "slow", reason=ref.id)
    everything = await listed(lab.client)
    assert [each.verb for each in everything] == ["pause", "cancel"] * 4
    pages = [(await lab.client.audit.list(offset=at, limit=3)).entries for at in (0, 3, 6)]
    assert [entry for page in pages for entry in page] == everything
    third = everything[2].at
    assert (await lab.client.audit.list(since=third)).count == 3
    assert (await lab.client.audit.list(until=third)).count == 5
    assert len(await listed(lab.client, type="slow")) == 4
    assert len(await listed(lab.client, by="ann")) == 8
    assert await listed(lab.client, by="bob") == []


async def test_another_admin_runtime_lists_the_same(lab: AdminLab, tmp_path: Path) -> None:
    ref = await lab.jobs.work.create(Task())
    await lab.client.secrets(ref.id)
    async with daemon_at(lab.url, tmp_path / "other.sqlite") as other:
        for _ in range(4):  # either of the two answers
            assert len(await listed(lab.client)) == 1
        assert other.progress.position


async def test_a_record_is_forgotten_when_the_server_has_removed_it(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    await lab.client.secrets(ref.id)
    info = await api.request(
        lab.daemon.connection,
        "STREAM.MSG.GET.JOBS_CONTROL",
        {"last_by_subj": subjects.ALL_AUDIT},
    )
    assert info["message"]["subject"].startswith("trellis.control.jobs.audit.admin.")
    time_passes(lab.daemon, RETENTION + HOUR)
    assert await listed(lab.client) == []


async def test_a_change_is_made_although_it_cannot_be_recorded_and_secrets_are_not_shown(
    lab: AdminLab, caplog: pytest.LogCaptureFixture
) -> None:
    ref = await lab.jobs.work.create(Task())
    async with worker(lab.url, "slow"):
        await api.request(lab.daemon.connection, "STREAM.DELETE.JOBS_CONTROL")
        await lab.client.pause_queue("lab", "slow", reason="the bank is away")
        [slow] = (await lab.client.list_queues(type="slow")).entries
    assert slow.paused
    assert "cannot record that ann did pause to queue slow" in caplog.text
    with pytest.raises(Unexpected, match="secrets are not shown, because this cannot be recorded"):
        await lab.client.secrets(ref.id)
    page = await lab.client.audit.list()
    assert page.problem is not None


async def test_what_a_command_did_is_told_from_what_the_admin_runtime_did(lab: AdminLab) -> None:
    connection = await Connection.open(lab.url, name="a command")
    try:
        records = ControlRecords(connection, supports_ttl=True)
        trail = AuditTrail(records, AuditRecorder.COMMAND, new_id)
        change = queue_change(AuditVerb.PAUSE, "lab", "work").model_copy(update={"by": "bob"})
        assert await trail.record(change) is None
    finally:
        await connection.close()
    [entry] = await listed(lab.client)
    assert (entry.by, entry.source) == ("bob", AuditSource.COMMAND)


def test_every_change_and_every_look_at_secrets_is_recorded() -> None:
    """A new RPC that changes something needs a line in RECORDS, or an event that says by whom."""
    recorded = {
        name for name, rpc in RPCS.items() if rpc.is_change or rpc.needs is Capability.SECRETS
    }
    assert recorded == RECORDED_AS_EVENTS | RECORDS.keys()
    assert not RECORDED_AS_EVENTS & RECORDS.keys()
