"""The admin runtime looks after jobs, and operators do what they may, with the printed rights."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid
from jobs_admin.api.views.health import Mode
from jobs_admin.api.views.workers import DirectiveOutcome, WorkerProcessView
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import Daemon, serving
from jobs_admin.maintenance.retention.archive import NoArchive
from jobs_admin.maintenance.retention.retention import Retention, RetentionDependencies
from jobs_admin.projection.projector import Projector
from jobs_admin.reads.readers import Readers
from jobs_admin.retention_policy import standard
from jobs_admin.rpc.startup import until_readable
from jobs_admin.workers.directives import WantedState, open_directives
from tests import given
from tests.admin.admin_lab import until_projected
from tests.cli.shell import Ended
from tests.permissions.installation import ROOT_USER, Installation
from tests.permissions.services import HOUSE, Chore, household, staff
from tests.support.example_service import ExampleJobs
from tests.support.facts import until
from tests.support.lab import until_state
from trellis_jobs import JobRef
from trellis_jobs.contract.permissions.grants import inbox_prefix
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import JobsError, NotPermitted
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.keys.read import StoredKey, read_key
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.jetstream.log.purge import has_events
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model import subjects
from trellis_jobs.model.audit_recorder import AuditRecorder
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.state import KeyAddress, KeyState
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.model.worker_states import WorkerState
from trellis_jobs.wire import keys as wire

OFTEN = timedelta(seconds=0.2)
SELDOM = timedelta(hours=1)
BUSY = {"reconcile_interval": OFTEN, "reconcile_grace": OFTEN, "janitor_interval": OFTEN}


@asynccontextmanager
async def admin(installation: Installation, folder: Path, **changes: Any) -> AsyncIterator[Daemon]:
    config = AdminConfig(nats=installation.access("jobs-admin"), path=folder / "jobs.sqlite")
    refused = installation.violations("jobs-admin")
    async with serving(dataclasses.replace(config, **changes)) as daemon:
        log = await api.request(daemon.connection, "STREAM.INFO.JOBS")
        if changes.get("mode") is not Mode.RPC_ONLY and log["state"]["messages"]:
            # It answers already while it makes its projection, and refuses to read from it.
            await until_projected(daemon, 1)
        yield daemon
    assert installation.violations("jobs-admin") == refused


async def test_an_admin_runtime_that_is_slow_to_start_may_ask_whether_others_answer(
    installation: Installation, tmp_path: Path
) -> None:
    """It did not start at all when it had to make its projection for longer than a second."""
    access = installation.access("jobs-admin")
    refused = installation.violations("jobs-admin")
    connection = await Connection.open(
        access.with_inbox_prefix(inbox_prefix("jobs-admin")), name="slow"
    )
    try:
        async with Projector.open(LogFeed(connection), tmp_path / "jobs.sqlite") as never_open:
            await until_readable(connection, never_open)
    finally:
        await connection.close()
    assert installation.violations("jobs-admin") == refused


@asynccontextmanager
async def operator(installation: Installation, name: str) -> AsyncIterator[AdminClient]:
    async with AdminClient.connect(installation.access(name), by=name, timeout=20) as client:
        yield client


def key_of(queue: str, room: str) -> KeyState:
    key_policy = HOUSE.contract.queues[queue].key_policy
    assert key_policy is not None
    key = key_policy.template.resolve({"room": room})
    address = KeyAddress("house", queue, key.hash)
    return KeyState(address=address, display=key.display, max_active=1, max_queued=1)


async def test_operators_see_jobs_workers_keys_and_what_happened(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        staff(installation.access("house"), "keyed") as at_work,
        admin(installation, tmp_path),
        operator(installation, "reader") as reader,
    ):
        room = f"attic-{installation.shape}"
        ref = await at_work.jobs.keyed.create(Chore(do="wait", room=room))
        await at_work.until_running(ref)
        await until_seen(reader, ref, JobState.ACTIVE)
        assert (await reader.explain(ref.id)).state is JobState.ACTIVE
        assert (await reader.health()).status == "ok"
        kinds = [entry.subject.rpartition(".")[2] async for entry in reader.events(ref.id)]
        assert kinds[:2] == ["created", "started"]  # heartbeats may follow
        assert (await reader.get_key("house", "keyed", f"room:{room}")).active
        services = {service.name: service async for service in reader.services()}
        assert any(of.live_workers for of in services["house"].types if of.type == "keyed")
        at_work.go.set()
        await ref.wait(timeout=10)


async def until_seen(reader: AdminClient, ref: JobRef[Any], state: JobState) -> None:
    async def is_seen() -> bool:
        with suppress(JobsError):  # until the projection knows it
            return (await reader.get(ref.id)).state is state
        return False

    await until(is_seen, f"{ref} is seen to be {state}")


async def test_directives_reach_a_worker_before_its_beats_without_an_admin_runtime(
    installation: Installation,
) -> None:
    """Without hints the worker would follow each of them with a beat, which is due every 5 s."""
    async with (
        staff(installation.access("house"), "work", dead_after=500),
        installation.connection("director") as connection,
    ):
        directives = await open_directives(connection)

        async def found() -> WorkerProcessView | None:
            listed = await directives.list_workers(WorkerFilter(service="house"))
            return next((each for each in listed if each.dead_after_ms == 500_000), None)

        async def follows(wanted: WorkerState) -> bool:
            now = await found()
            return now is not None and now.state is wanted

        worker = await until(found, "the worker is registered")
        async with asyncio.timeout(25):
            for wanted in [WorkerState.QUIET, WorkerState.RUNNING] * 5:
                (directed,) = await directives.direct(
                    [("house", worker.instance_id)], WantedState(state=wanted, by="director")
                )
                assert directed.outcome is DirectiveOutcome.DIRECTED
                await until(partial(follows, wanted), f"the worker is {wanted}")


async def test_who_changes_jobs_need_not_read_them(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        household(installation.access("house")) as jobs,
        admin(installation, tmp_path),
        operator(installation, "changer") as changer,
    ):
        ref = await jobs.unattended.create(Chore())
        assert (await changer.cancel(ref.id)).job.by == "changer"
        assert (await ref.get()).state is JobState.CANCELLED


PAUSE: Final = ("queues", "pause", "house/limited", "--reason", "no bank", "--by", "ann")


async def test_operators_pause_and_resume_queues_through_the_admin_runtime(
    installation: Installation, tmp_path: Path
) -> None:
    """Without any right on streams or consumers; who and why is recorded."""
    async with admin(installation, tmp_path):
        refused = installation.violations("changer")
        paused = await command(installation, "changer", *PAUSE, "--for", "1h")
        assert (paused.code, paused.err) == (0, "")
        limited = (await listed_queues(installation))["limited"]
        assert (limited["paused"], limited["pauseReason"], limited["pausedBy"]) == (
            True,
            "no bank",
            "ann",
        )
        assert limited["drift"] == []
        resumed = await command(installation, "changer", "queues", "resume", "house/limited")
        assert resumed.out.startswith("house/limited is resumed")
        assert installation.violations("changer") == refused
        denied = await command(installation, "reader", *PAUSE)
        assert denied.code == 1
        assert "may not publish to rpc.v1.Jobs.PauseQueue" in denied.err
        assert not (await listed_queues(installation))["limited"]["paused"]


async def test_operators_list_queues_through_the_admin_runtime_with_all_facts(
    installation: Installation, tmp_path: Path
) -> None:
    async with household(installation.access("house")) as jobs, admin(installation, tmp_path):
        refused = installation.violations("reader")
        ref = await jobs.unattended.create(Chore())

        async def is_seen() -> bool:
            waiting = (await listed_queues(installation))["unattended"]
            return bool(waiting["states"].get("pending") and waiting["depth"])

        await until(is_seen, "the projection and the work queue have the job")
        waiting = (await listed_queues(installation))["unattended"]
        assert waiting["oldestAgeMs"] >= 0
        assert waiting["unattended"]
        assert installation.violations("reader") == refused
        await ref.cancel()


async def test_without_an_admin_runtime_only_rights_on_consumers_pause_a_queue(
    installation: Installation,
) -> None:
    refused = installation.violations("keeper")
    paused = await command(installation, "keeper", *PAUSE)
    assert (paused.code, paused.err) == (0, "")
    async with installation.connection(ROOT_USER) as root:
        recorded = await api.newest(root, "JOBS_CONTROL", subjects.audit_of(AuditRecorder.COMMAND))
    entry = orjson.loads(recorded.data)
    assert (entry["verb"], entry["type"], entry["by"]) == ("pause", "limited", "ann")
    resumed = await command(installation, "keeper", "queues", "resume", "house/limited")
    assert resumed.out.startswith("house/limited is resumed")
    assert installation.violations("keeper") == refused
    missing = await command(installation, "changer", *PAUSE)
    assert missing.code == 4
    assert "no admin runtime answers rpc.v1.Jobs.PauseQueue" in missing.err


async def listed_queues(installation: Installation) -> dict[str, dict[str, Any]]:
    ended = await command(installation, "reader", "queues", "list", "--json")
    assert (ended.code, ended.err) == (0, "")
    return {each["type"]: each for each in ended.json["queues"]}


async def test_doctor_checks_through_the_admin_runtime_what_an_operator_may_not(
    installation: Installation, tmp_path: Path
) -> None:
    async with admin(installation, tmp_path):
        ended = await command(installation, "reader", "doctor", "--json")
    told = ended.json
    assert told["notSeen"] == []
    sections = {each["name"]: each["findings"] for each in told["sections"]}
    for name in ("streams", "readers", "clock"):
        assert sections[name][0]["message"].startswith("checked by the admin runtime")
    assert {"level": "fine", "message": "JOBS_WORK is up to date"} in sections["streams"]
    alone = await command(installation, "reader", "doctor", "--json")
    assert {"streams", "readers", "clock"} <= set(alone.json["notSeen"])


async def command(installation: Installation, who: str, *arguments: str) -> Ended:
    return await asyncio.to_thread(installation.command, who, *arguments)


async def test_who_may_only_change_jobs_can_use_every_command_that_does(
    installation: Installation, tmp_path: Path
) -> None:
    """`--operator NAME=mutate` alone could not: commands look a job up before they change it."""
    refused = installation.violations("changer")
    async with household(installation.access("house")) as jobs, admin(installation, tmp_path):
        refs = [await jobs.unattended.create(Chore()) for _ in range(3)]
        async with operator(installation, "reader") as reader:
            for ref in refs:
                await until_seen(reader, ref, JobState.PENDING)
        by_filter = ("--service", "house", "--type", "unattended", "--state", "pending", "--yes")
        for command, code in (
            (("jobs", "cancel", refs[0].id, "--dry-run"), 0),
            (("jobs", "cancel", refs[0].id, "--yes"), 0),
            (("jobs", "cancel", *by_filter), 0),
            (("jobs", "retry", refs[0].id, "--yes"), 1),
            (("dlq", "replay", refs[0].id, "--yes"), 1),
            (("dlq", "dismiss", refs[0].id, "--yes"), 1),
            (("keys", "release", "house/keyed", "room:none", refs[0].id, "--yes"), 3),
        ):
            ended = await asyncio.to_thread(installation.command, "changer", *command)
            assert ended.code == code, (command, ended.out, ended.err)
            assert "permi" not in ended.err, (command, ended.err)
        states = {(await ref.get()).state for ref in refs}
        assert states == {JobState.CANCELLED}
    assert installation.violations("changer") == refused


async def test_a_dead_job_is_replayed_and_another_dismissed(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        household(installation.access("house")) as jobs,
        admin(installation, tmp_path, **BUSY),
        operator(installation, "changer") as changer,
    ):
        again, given_up = await taken_and_forgotten(installation, jobs, 2)
        for ref in (again, given_up):
            await until_state(ref, JobState.DEAD)
        await changer.dismiss(given_up.id)
        await changer.replay(again.id)
        async with staff(installation.access("house"), "limited"):
            assert await again.wait(timeout=10) == "try 1"
        assert (await given_up.get()).state is JobState.DISMISSED


async def taken_and_forgotten(
    installation: Installation, jobs: ExampleJobs[Chore, str], count: int
) -> list[JobRef[Any]]:
    """By a worker of the queue that dies before it says anything: the server gives them up."""
    async with installation.connection("house") as connection:
        # In another account the server forgets what a worker asked for a moment after it has left.
        await until(lambda: has_no_pull_requests(connection), "no worker requests jobs")
        refs: list[JobRef[Any]] = [await jobs.limited.create(Chore()) for _ in range(count)]
        taken: set[str] = set()
        inbox = connection.new_inbox()
        await connection.subscribe(inbox, lambda m: taken.add(m.subject.rsplit(".", 1)[-1]))
        pull = orjson.dumps({"batch": len(refs), "expires": 5_000_000_000})
        call = connection.api("CONSUMER.MSG.NEXT.JOBS_WORK.house-limited")
        await connection.publish(call, pull, reply=inbox)
        await until(lambda: {ref.id for ref in refs} <= taken, "they are taken")
    return refs


async def has_no_pull_requests(connection: Connection) -> bool:
    info = await api.request(connection, "CONSUMER.INFO.JOBS_WORK.house-limited")
    return bool(info["num_waiting"] == 0)


async def test_deliveries_that_the_server_gave_up_are_learnt_from_its_advisories(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        household(installation.access("house")) as jobs,
        admin(installation, tmp_path, reconcile_interval=SELDOM),
        installation.connection(ROOT_USER) as root,
    ):
        [ref] = await taken_and_forgotten(installation, jobs, 1)
        job = await until_state(ref, JobState.DEAD)
        assert job.last_error is not None
        assert job.last_error.type == "deliveries_exhausted"

        async def are_all_done() -> bool:
            feed = await api.request(root, "CONSUMER.INFO.JOBS_ADVISORIES.jobs-advisories")
            return bool(feed["ack_floor"]["consumer_seq"] == feed["delivered"]["consumer_seq"] > 0)

        await until(are_all_done, "its advisory is done with")


async def test_work_that_was_lost_is_put_back_and_what_is_overdue_expires(
    installation: Installation, tmp_path: Path
) -> None:
    mine = installation.access("house")
    async with household(mine) as jobs, installation.connection(ROOT_USER) as root:
        ref = await jobs.work.create(Chore())
        late = await jobs.unattended.create(Chore(), deadline=utc_now() + timedelta(seconds=0.1))

        async def is_there() -> bool:
            sourced = {"last_by_subj": subjects.work(ref.address)}
            answer = await root.request("$JS.API.STREAM.MSG.GET.JOBS_WORK", orjson.dumps(sourced))
            return b"error" not in answer.data

        await until(is_there, "the work queue has it")
        lost = {"filter": subjects.work(ref.address)}
        await api.request(root, "STREAM.PURGE.JOBS_WORK", lost)
        async with admin(installation, tmp_path, **BUSY), staff(mine, "work"):
            assert await ref.wait(timeout=20) == "try 1"
            await until_state(late, JobState.EXPIRED)


async def test_a_job_whose_time_is_over_leaves_the_log(
    installation: Installation, tmp_path: Path
) -> None:
    async with staff(installation.access("house"), "work") as at_work:
        ref = await at_work.jobs.work.create(Chore())
        await ref.wait(timeout=10)
    refused, path = installation.violations("jobs-admin"), tmp_path / "jobs.sqlite"

    async def next_week() -> datetime:
        return utc_now() + timedelta(days=8)

    async with installation.connection("jobs-admin") as connection:
        feed = LogFeed(connection)
        async with (
            Projector.open(feed, path) as projector,
            Readers.open(path, projector) as readers,
        ):
            await projector.run(until=(await feed.extent()).last_sequence)
            doors = RetentionDependencies(connection, readers, projector)
            await Retention(standard(), NoArchive(), doors, next_week).sweep()
        assert not await has_events(connection, ref.address)
    assert installation.violations("jobs-admin") == refused


@asynccontextmanager
async def a_slot_left_behind(installation: Installation, room: str) -> AsyncIterator[KeyState]:
    """Of a job that is over, in a key that is not renewed."""
    async with (
        household(installation.access("house")) as jobs,
        installation.connection(ROOT_USER) as root,
    ):
        ref, once = await jobs.keyed.create(Chore(room=room)), utc_now() - timedelta(hours=2)
        await ref.cancel()
        left = given.slot(ref.id, heartbeat_at=once, expires_at=once + OFTEN)
        state = replace(key_of("keyed", room), active=(left,))
        answer = await root.request(subjects.key_state(state.address), wire.encode(state))
        assert b"error" not in answer.data
        yield state

        async def is_empty() -> bool:
            found = await read_key(root, state.address)
            return isinstance(found, StoredKey) and not found.state.active

        await until(is_empty, "the slot is free")


async def test_a_key_is_repaired(installation: Installation, tmp_path: Path) -> None:
    async with (
        admin(installation, tmp_path, **BUSY),
        a_slot_left_behind(installation, f"cellar-{installation.shape}"),
    ):
        pass


async def test_a_key_is_released_by_who_may_change_and_not_by_who_may_read(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        admin(installation, tmp_path / "runtime", reconcile_interval=SELDOM),
        operator(installation, "reader") as reader,
        operator(installation, "changer") as changer,
        a_slot_left_behind(installation, f"loft-{installation.shape}") as state,
    ):
        key, holder = ("house", "keyed", state.display), state.active[0].job_id
        with pytest.raises(NotPermitted):
            await reader.release_key(*key, holder)

        async def holders() -> list[str]:
            with suppress(JobsError):  # the projection does not know the key yet
                return [slot.job_id for slot in (await reader.get_key(*key)).active]
            return []

        assert await until(holders) == [holder]

        async def released() -> bool:
            with suppress(Invalid):  # its lease lasts for a moment
                return (await changer.release_key(*key, holder)).active == ()
            return False

        await until(released, "its lease is over")


async def test_a_user_who_may_watch_reads_the_log_of_every_job_without_the_admin_runtime(
    installation: Installation,
) -> None:
    async with (
        household(installation.access("house")) as jobs,
        installation.connection("watcher") as connection,
    ):
        log = EventLog(connection, await detect_features(connection))
        ref = await jobs.unattended.create(Chore())
        await ref.cancel()
        entries = await log.history(ref.address)
        assert [each.event.kind for each in entries] == [EventKind.CREATED, EventKind.CANCELLED]
        with pytest.raises(NotPermitted):
            await AdminClient(connection).get(ref.id)


async def test_who_provisions_makes_the_consumers_of_services_and_sees_what_a_migration_touches(
    installation: Installation, tmp_path: Path
) -> None:
    async def infra(verb: str, app: str) -> Ended:
        named = f"tests.permissions.services:{app}"
        return await asyncio.to_thread(
            installation.command, "provisioner", "infra", verb, "--app", named
        )

    async with admin(installation, tmp_path), household(installation.access("house")) as jobs:
        ref = await jobs.work.create(Chore())
        await until_state(ref, JobState.PENDING)
        checked = await infra("check", "house")
        assert checked.code == 0, checked.err
        refused = await infra("apply", "changed_house")
        await ref.cancel()
    assert refused.code == 1
    assert "this is a contract migration" in refused.err
    assert re.search(r"unfinished jobs of house/work: [1-9]\d* pending", refused.err), refused.err
