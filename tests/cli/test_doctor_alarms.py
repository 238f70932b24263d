"""`trellis-jobs doctor` about delayed jobs: are workers reminded of them?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.doctor import Level
from jobs_admin.doctor.alarm_rules import ServiceAlarms, check_alarms
from jobs_admin.doctor.schedule_rules import check_schedules
from tests.admin.admin_lab import until_shown
from tests.cli.stage import Stage, stage
from tests.cli.test_doctor import findings, printed
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import probe, producer, worker
from trellis_jobs.jetstream.alarms.alarms_info import AlarmsInfo, read_alarms_info
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.states import JobState

RECEIVED = AlarmsInfo(waiting_pulls=1)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


def test_a_delayed_job_without_a_worker_then_without_a_stream_is_reported(there: Stage) -> None:
    assert printed(there.shell("doctor", "--json").json, "alarms") == [
        "0 delayed jobs, and no alarm waits for a worker"
    ]
    asyncio.run(_delay_a_job(there))
    told = there.shell("doctor", "--json").json
    [alone] = findings(told, "alarms")
    assert alone["message"] == "lab: 1 delayed job, and no worker of the service is up"
    asyncio.run(_is_fine_with_a_worker(there))
    asyncio.run(_delete_alarms(there))
    ended = there.shell("doctor", "--json")
    assert ended.code == 1
    [missing] = findings(ended.json, "alarms")
    assert (missing["level"], missing["message"]) == (
        "broken",
        "lab: 1 delayed job cannot start, because JOBS_ALARMS_lab is missing",
    )
    assert "`trellis-jobs infra apply MODULE:SERVICE`" in missing["remedy"]


async def _delay_a_job(there: Stage) -> None:
    async with producer(there.url) as jobs, AdminClient.connect(there.url) as admin:
        ref = await jobs.work.create(Task(), delay=3600)
        await until_shown(admin, [ref.id], JobState.SCHEDULED)


async def _is_fine_with_a_worker(there: Stage) -> None:
    async with worker(there.url, "slow"), probe(there.url) as raw:

        async def is_received() -> bool:
            return (await read_alarms_info(raw.connection, "lab")).is_received

        await until(is_received, "the worker waits for alarms")

        async def told() -> list[str]:
            report = await asyncio.to_thread(lambda: there.shell("doctor", "--json").json)
            return printed(report, "alarms")

        async def is_fine() -> bool:
            return await told() == ["1 delayed job, and no alarm waits for a worker"]

        # On a busy machine the server may not answer in time, and doctor says that instead.
        await until(is_fine, "doctor finds the worker")


async def _delete_alarms(there: Stage) -> None:
    async with probe(there.url) as raw:
        await api.request(raw.connection, "STREAM.DELETE.JOBS_ALARMS_lab")
        assert not (await read_alarms_info(raw.connection, "lab")).has_stream


@pytest.mark.parametrize(
    ("info", "delayed", "level"),
    [
        (AlarmsInfo(has_stream=False), 0, Level.FINE),
        (AlarmsInfo(has_stream=False), 2, Level.BROKEN),
        (AlarmsInfo(), 0, Level.FINE),
        (AlarmsInfo(), 2, Level.WARNING),
        (AlarmsInfo(waiting=3), 2, Level.BROKEN),
        (AlarmsInfo(waiting=3), 0, Level.BROKEN),
        (AlarmsInfo(waiting=3, in_progress=1), 2, Level.FINE),
        (AlarmsInfo(waiting=3, waiting_pulls=1), 2, Level.FINE),
        (RECEIVED, 2, Level.FINE),
    ],
)
def test_alarms_are_judged_by_who_receives_them(
    info: AlarmsInfo, delayed: int, level: Level
) -> None:
    [found] = check_alarms([ServiceAlarms("shop", delayed, info)])
    assert found.level is level
    assert (found.remedy is None) == (level is Level.FINE)


def test_services_are_judged_one_by_one() -> None:
    silent = ServiceAlarms("attic", 1, AlarmsInfo(waiting=1))
    found = check_alarms([ServiceAlarms("house", 5, RECEIVED), silent])
    assert [each.message for each in found] == [
        "attic: 1 alarm waits, and no worker of the service is up"
    ]


def test_overdue_schedules_are_reported_by_service() -> None:
    found = [ScheduleAddress("attic", "sweep", "daily")]
    found += [ScheduleAddress("house", "mow", f"n-{number}") for number in range(5)]
    one, many = check_schedules(found, [], [])
    assert (one.level, one.message) == (
        Level.BROKEN,
        "attic/sweep/daily is overdue: no worker has fired what was due",
    )
    assert one.remedy is not None
    assert one.remedy.startswith("start workers of attic")
    assert many.message.startswith("house/mow/n-0, house/mow/n-1, house/mow/n-2 and 2 more are")


def test_schedules_of_a_newer_version_are_reported() -> None:
    [found] = check_schedules([], [ScheduleAddress("house", "mow", "daily")], [])
    assert (found.level, found.message) == (
        Level.WARNING,
        "house/mow/daily is unreadable to this version",
    )
    assert check_schedules([], [], []) == []


def test_schedules_of_queues_that_no_worker_knows_are_reported_once() -> None:
    gone = ScheduleAddress("house", "mow", "daily")
    [found] = check_schedules([gone], [], [gone])
    assert (found.level, found.message) == (
        Level.BROKEN,
        "house/mow/daily is not fired: no running worker knows the queue",
    )
