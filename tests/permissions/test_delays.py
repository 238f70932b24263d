"""Delayed jobs with the printed rights: they work for their own service, and reach no other."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.operations import OperationVerb
from tests.permissions.installation import CARELESS, ROOT_USER, Installation
from tests.permissions.services import Chore, household, staff
from tests.permissions.test_operators_and_the_admin_runtime import (
    BUSY,
    admin,
    command,
    operator,
    until_seen,
)
from tests.permissions.test_refusals import (
    CONTROL,
    PULL,
    Deed,
    call,
    consumer,
    hears_only_its_own,
    named,
    refused,
)
from tests.support.facts import until
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.states import JobState

ALARM: Final = "trellis.alarm.house.job.work.01JHOUSEJOB"
DUE: Final = "trellis.due.house.job.work.01JHOUSEJOB"
STREAM: Final = "JOBS_ALARMS_house"
SCHEDULE: Final = f"{CONTROL}.schedules.house.work.nightly"
OWN: Final = "trellis.alarm.garden.job.work.01JGARDENJOB"
OWN_DUE: Final = "trellis.due.garden.job.work.01JGARDENJOB"
OWN_STREAM: Final = "JOBS_ALARMS_garden"

OF_A_SERVICE: Final = (
    Deed("set an alarm of another", ALARM, "{}"),
    Deed("remind the workers of another", DUE, "{}"),
    Deed("ack an alarm of another", f"$JS.ACK.{STREAM}.due.1.1.1.1.0", "+ACK", undone=True),
    call("read an alarm of another", f"DIRECT.GET.{STREAM}.{ALARM}"),
    call("read what is due of another", f"DIRECT.GET.{STREAM}.{DUE}"),
    call("read another's alarms by body", f"DIRECT.GET.{STREAM}", '{"seq":1}'),
    call("get an alarm of another", f"STREAM.MSG.GET.{STREAM}", '{"seq":1}'),
    call("delete an alarm of another", f"STREAM.MSG.DELETE.{STREAM}", '{"seq":999999}'),
    call("take alarms of another", f"CONSUMER.MSG.NEXT.{STREAM}.due", PULL, undone=True),
    call("see who takes another's alarms", f"CONSUMER.INFO.{STREAM}.due"),
    call(
        "make a consumer of another's alarms",
        f"CONSUMER.CREATE.{STREAM}.spy.trellis.due.house.>",
        consumer(STREAM, filter_subject="trellis.due.house.>"),
        undone=True,
    ),
    call(
        "give another's consumer a filter",
        f"CONSUMER.CREATE.{STREAM}.due.trellis.due.garden.>",
        consumer(STREAM, name="due", filter_subject="trellis.due.garden.>"),
        undone=True,
    ),
    call(
        "make another consumer of its own alarms",
        f"CONSUMER.CREATE.{OWN_STREAM}.spy.trellis.due.garden.>",
        consumer(OWN_STREAM, filter_subject="trellis.due.garden.>"),
        undone=True,
    ),
    call("see another's stream of alarms", f"STREAM.INFO.{STREAM}"),
    call("change its own stream of alarms", f"STREAM.UPDATE.{OWN_STREAM}", "{}", undone=True),
    call("purge another's alarms", f"STREAM.PURGE.{STREAM}", undone=True),
    call("delete another's stream of alarms", f"STREAM.DELETE.{STREAM}", undone=True),
    Deed("write a schedule of another", SCHEDULE, "{}"),
    call("read a schedule of another", f"DIRECT.GET.JOBS_CONTROL.{SCHEDULE}"),
    call("read all schedules", f"DIRECT.GET.JOBS_CONTROL.{CONTROL}.schedules.*.*.*"),
    call(
        "watch the schedules of another",
        f"CONSUMER.CREATE.JOBS_CONTROL.spy.{CONTROL}.schedules.house.*.*",
        consumer("JOBS_CONTROL", filter_subject=f"{CONTROL}.schedules.house.*.*"),
    ),
    Deed("move a job through the admin runtime", "rpc.v1.Jobs.Reschedule", "{}", undone=True),
    Deed("release a job through the admin runtime", "rpc.v1.Jobs.RunNow", "{}", undone=True),
)
MOVES: Final = (
    Deed("move a job", "rpc.v1.Jobs.Reschedule", "{}", undone=True),
    Deed("release a job", "rpc.v1.Jobs.RunNow", "{}", undone=True),
)
OF_OPERATORS: Final = (
    *((who, deed) for who in ("reader", "watcher", "keeper", "foreman") for deed in MOVES),
    *((who, Deed("set an alarm", ALARM, "{}")) for who in ("changer", "watcher", "provisioner")),
    ("changer", Deed("remind workers", DUE, "{}")),
    ("changer", call("read alarms", f"DIRECT.GET.{STREAM}.{ALARM}")),
    ("watcher", call("read alarms", f"DIRECT.GET.{STREAM}.{ALARM}")),
    ("reader", call("see alarms", f"CONSUMER.INFO.{STREAM}.due")),
    ("jobs-admin", call("take alarms", f"CONSUMER.MSG.NEXT.{STREAM}.due", PULL, undone=True)),
    ("jobs-admin", call("read what is due", f"DIRECT.GET.{STREAM}.{DUE}")),
    ("jobs-admin", call("purge alarms", f"STREAM.PURGE.{STREAM}", undone=True)),
    ("jobs-admin", call("delete alarms", f"STREAM.DELETE.{STREAM}", undone=True)),
    ("jobs-admin", call("change alarms", f"STREAM.UPDATE.{STREAM}", "{}", undone=True)),
    ("jobs-admin", call("pause alarms", f"CONSUMER.PAUSE.{STREAM}.due", "{}", undone=True)),
    (
        "jobs-admin",
        call(
            "make a consumer of alarms",
            f"CONSUMER.CREATE.{STREAM}.spy.trellis.due.house.>",
            consumer(STREAM, filter_subject="trellis.due.house.>"),
            undone=True,
        ),
    ),
    ("provisioner", call("delete alarms", f"STREAM.DELETE.{STREAM}", undone=True)),
    ("provisioner", call("purge alarms", f"STREAM.PURGE.{STREAM}", undone=True)),
)


@pytest.mark.parametrize("deed", OF_A_SERVICE, ids=named)
async def test_a_service_may_not(installation: Installation, deed: Deed) -> None:
    await refused(installation, "garden", deed)


@pytest.mark.parametrize("deed", OF_A_SERVICE, ids=named)
async def test_in_an_account_of_its_own_it_could_not(in_accounts: Installation, deed: Deed) -> None:
    if OWN_STREAM in deed.subject:
        pytest.skip("it is its own stream, and only its permissions keep it from that")
    await refused(in_accounts, CARELESS, deed)


@pytest.mark.parametrize(("who", "deed"), OF_OPERATORS, ids=named)
async def test_no_user_has_more_rights_than_it_needs(
    installation: Installation, who: str, deed: Deed
) -> None:
    await refused(installation, who, deed)


@pytest.mark.parametrize(
    ("subject", "said"),
    [("trellis.alarm.house.>", ALARM), ("trellis.due.>", DUE), ("trellis.*.house.>", DUE)],
)
async def test_a_service_does_not_hear_the_alarms_of_another(
    installation: Installation, subject: str, said: str
) -> None:
    await hears_only_its_own(installation, "garden", subject, said)


# What a stream with message schedules lets its service do


async def stored(root: Connection, *streams: str) -> dict[str, Any]:
    """The subjects of these streams with the number of their messages, without workers."""
    found = {}
    for stream in streams:
        info = await api.request(root, f"STREAM.INFO.{stream}", {"subjects_filter": ">"})
        of_stream = info["state"].get("subjects") or {}
        found[stream] = {each: of_stream[each] for each in of_stream if ".workers." not in each}
    return found


OTHERS: Final = ("JOBS", "JOBS_WORK", "KV_JOBS_KEYS", "JOBS_CONTROL", STREAM)


@pytest.mark.parametrize("subject", [OWN, OWN_DUE])
async def test_a_service_can_delete_all_alarms_of_its_own_and_nothing_else(
    installation: Installation, subject: str
) -> None:
    async with (
        installation.connection(ROOT_USER) as root,
        installation.connection("garden") as garden,
    ):
        for each in (ALARM, f"{OWN}X", f"{OWN_DUE}X"):
            await root.request(each, b"{}")
        before = await stored(root, *OTHERS)
        answer = await garden.request(subject, b"{}", headers={"Nats-Rollup": "all"})
        assert "error" not in orjson.loads(answer.data)
        assert await stored(root, OWN_STREAM) == {OWN_STREAM: {subject: 1}}
        assert await stored(root, *OTHERS) == before
        await api.request(root, f"STREAM.PURGE.{OWN_STREAM}")


@pytest.mark.parametrize(
    "target",
    [
        "trellis.jobs.house.work.01JHOUSEJOB.created",
        "trellis.jobs.garden.work.01JGARDENJOB.created",
        "trellis.work.house.work.01JHOUSEJOB",
        "trellis.work.garden.work.01JGARDENJOB",
        "$KV.JOBS_KEYS.house.keyed.0123abcd",
        "$JS.API.STREAM.PURGE.JOBS",
        SCHEDULE,
        ALARM,
        DUE,
        "trellis.due.garden.>",
        "nowhere",
    ],
)
async def test_an_alarm_reaches_only_the_subjects_of_its_own_stream(
    installation: Installation, target: str
) -> None:
    """The server refuses other targets, also those to which the service may publish itself."""
    async with (
        installation.connection(ROOT_USER) as root,
        installation.connection("garden") as garden,
    ):
        before = await stored(root, *OTHERS)
        headers = {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": target}
        answer = await garden.request(OWN, b"{}", headers=headers)
        assert json.loads(answer.data)["error"]["err_code"] == 10190
        assert await stored(root, *OTHERS) == before


async def test_an_alarm_does_not_copy_what_its_service_may_not_read(
    installation: Installation,
) -> None:
    async with installation.connection("garden") as garden:
        headers = {
            "Nats-Schedule": "@at 2020-01-01T00:00:00Z",
            "Nats-Schedule-Target": OWN_DUE,
            "Nats-Schedule-Source": "trellis.jobs.house.work.01JHOUSEJOB.created",
        }
        answer = await garden.request(OWN, b"", headers=headers)
        assert json.loads(answer.data)["error"]["description"].endswith("source is invalid")


# Everything that delayed jobs need


async def test_a_delayed_job_lives_its_whole_life_with_the_rights_of_its_service(
    installation: Installation,
) -> None:
    before = installation.violations("house")
    mine = installation.access("house")
    async with staff(mine, "work", "keyed") as at_work, household(mine) as elsewhere:
        soon = await elsewhere.work.create(Chore(), delay=1.5)
        assert (await soon.get()).state is JobState.SCHEDULED
        many = await elsewhere.work.create_many([Chore() for _ in range(10)], delay=1.5)
        later = await at_work.jobs.work.create(Chore(), delay=3600)
        await later.reschedule(delay=7200, reason="not yet")
        await later.reschedule(delay=1800)
        await later.run_now("now")
        room = f"shed-{installation.shape}"
        keyed = await elsewhere.keyed.create(Chore(room=room), delay=1.5)
        never = await elsewhere.work.create(Chore(), delay=3600)
        await never.cancel("not needed")
        for ref in (soon, *many, later, keyed):
            assert await ref.wait(timeout=20) == "try 1"
        retried = await elsewhere.work.create(Chore(do="fail once"), delay=1.2)
        assert await retried.wait(timeout=20) == "try 2"
    assert installation.violations("house") == before


async def test_operators_move_and_release_jobs_with_the_right_to_change_them(
    installation: Installation, tmp_path: Path
) -> None:
    refused_before = installation.violations("changer")
    async with (
        staff(installation.access("house"), "work") as at_work,
        admin(installation, tmp_path),
        operator(installation, "changer") as changer,
        operator(installation, "reader") as reader,
    ):
        ref = await at_work.jobs.work.create(Chore(), delay=3600)
        to = datetime.now(UTC) + timedelta(hours=2)
        for moment in (to, to - timedelta(hours=1)):
            moved = await changer.reschedule(ref.address, moment, reason="not yet")
            assert moved.job.state is JobState.SCHEDULED
        assert (await reader.explain(ref.id)).details["movedBy"] == "changer"
        await changer.run_now(ref.id)
        assert await ref.wait(timeout=20) == "try 1"
        others = await at_work.jobs.work.create_many([Chore() for _ in range(5)], delay=3600)
        for other in others:
            await until_seen(reader, other, JobState.SCHEDULED)
        operation = await changer.operate(OperationVerb.RUN_NOW, JobFilter(type="work"))
        assert operation.total >= 5
        assert [await other.wait(timeout=20) for other in others] == ["try 1"] * 5
    assert installation.violations("changer") == refused_before


async def test_the_admin_runtime_repairs_alarms_and_doctor_looks_at_them(
    installation: Installation, tmp_path: Path
) -> None:
    soon = timedelta(seconds=0.3)
    async with (
        staff(installation.access("house"), "work") as at_work,
        installation.connection(ROOT_USER) as root,
        admin(installation, tmp_path, overdue_grace=soon, **BUSY),
    ):
        refs = await at_work.jobs.work.create_many([Chore() for _ in range(5)], delay=1.5)
        await api.request(root, f"STREAM.PURGE.{STREAM}")
        assert [await ref.wait(timeout=20) for ref in refs] == ["try 1"] * 5
        told = orjson.loads((await command(installation, "reader", "doctor", "--json")).out)
        sections = {each["name"]: each["findings"] for each in told["sections"]}
        assert "alarms" not in told["notSeen"]
        assert sections["alarms"][0]["message"].startswith("checked by the admin runtime")
        assert {"level": "fine", "message": f"{STREAM} is up to date"} in sections["streams"]


async def test_an_installation_is_updated_with_all_streams_for_alarms_without_any_code(
    installation: Installation,
) -> None:
    before = installation.violations("provisioner")
    planned = await command(installation, "provisioner", "infra", "plan", "--json")
    assert planned.code == 0, planned.err
    names = {each["name"] for each in planned.json["changes"]}
    assert {"JOBS_ALARMS_house", "JOBS_ALARMS_garden", "JOBS_ALARMS_orchard"} <= names
    assert installation.violations("provisioner") == before


async def test_the_alarm_of_a_cancelled_job_is_removed_by_the_admin_runtime(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        household(installation.access("house")) as jobs,
        installation.connection(ROOT_USER) as root,
        admin(installation, tmp_path),
        operator(installation, "changer") as changer,
    ):
        ref = await jobs.unattended.create(Chore(), delay=3600)
        alarm = f"trellis.alarm.house.job.unattended.{ref.id}"
        assert alarm in (await stored(root, STREAM))[STREAM]
        await changer.cancel(ref.id)

        async def is_gone() -> bool:
            return alarm not in (await stored(root, STREAM))[STREAM]

        await until(is_gone, "the alarm is removed")
