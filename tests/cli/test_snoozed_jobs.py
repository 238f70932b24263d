"""What operators see of a job that its handler snoozed: it is not shown as a failure."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from tests.admin.admin_lab import until_shown
from tests.cli.shell import shell
from tests.cli.stage import Stage, stage
from tests.support.example_service import Task
from tests.support.lab import until_state, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState


@dataclass(frozen=True)
class Bank:
    """`asleep` is snoozed for an hour; `paid` completed after it had been snoozed."""

    stage: Stage
    asleep: str
    paid: str


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with stage(tmp_path_factory.mktemp("bank")) as on:
        asleep, paid = asyncio.run(snoozed_jobs(on.url))
        asyncio.run(_until_known(on.url, asleep, paid))
        yield Bank(on, asleep, paid)


async def snoozed_jobs(url: str) -> tuple[str, str]:
    async with worker(url, "work") as bench:
        asleep = await bench.jobs.work.create(
            Task(do="snooze once", text="the bank is closed", seconds=3600)
        )
        paid = await bench.jobs.work.create(Task(do="snooze once", text="not yet"))
        await until_state(asleep, JobState.RETRY)
        await paid.wait(timeout=10)
    return asleep.id, paid.id


async def _until_known(url: str, asleep: str, paid: str) -> None:
    async with AdminClient.connect(url) as admin:
        await until_shown(admin, [asleep], JobState.RETRY)
        await until_shown(admin, [paid], JobState.COMPLETED)


def fields(shown: str) -> dict[str, str]:
    _, *lines = shown.splitlines()
    return {name: value for name, _, value in (line.partition("  ") for line in lines)}


def test_a_snoozed_job_tells_until_when_how_often_and_why(bank: Bank) -> None:
    told = fields(bank.stage.shell("jobs", "get", bank.asleep).out)
    assert re.search(
        r"Its handler snoozed it until \S+Z, for the 1st time: the bank is closed\.", told["why"]
    )
    assert told["next"].strip().startswith("a worker runs it again in ")
    assert told["tries"].strip() == "0 of 3"
    assert told["snoozes"].strip() == "1, the last one because: the bank is closed"
    assert re.match(r"in (59 min|1 h)", told["snoozed until"].strip())
    assert "next try" not in told
    assert "errors" not in told


def test_a_job_that_ran_after_its_snooze_keeps_the_reason(bank: Bank) -> None:
    told = fields(bank.stage.shell("jobs", "get", bank.paid).out)
    assert told["snoozes"].strip() == "1, the last one because: not yet"
    assert "snoozed until" not in told


def test_a_list_says_that_a_job_is_snoozed_and_shows_no_error(bank: Bank) -> None:
    listed = bank.stage.shell("jobs", "list").out.splitlines()
    [asleep] = [line for line in listed if bank.asleep in line]
    [paid] = [line for line in listed if bank.paid in line]
    assert re.search(r"snoozed, due in (59 min.*|1 h): the bank is closed", asleep)
    assert "snooze" not in paid


def test_events_show_the_snooze_and_no_retry(bank: Bank) -> None:
    told = bank.stage.shell("jobs", "events", bank.asleep).out
    assert re.findall(r"^[\d:.]{12}  (\w+)", told, re.MULTILINE) == [
        *("created", "started", "snoozed")
    ]
    assert "for 1 h, snooze 1: the bank is closed" in told
    assert re.search(r"│ is snoozed, .* so far, until ", told)
    between = bank.stage.shell("jobs", "events", "--json", bank.paid).json["between"]
    assert "backing-off" not in [each["phase"] for each in between]


def test_scripts_get_the_number_the_time_and_the_reason(bank: Bank) -> None:
    asleep = bank.stage.shell("jobs", "get", "--json", bank.asleep).json
    assert (asleep["snoozes"], asleep["snoozeReason"]) == (1, "the bank is closed")
    assert asleep["snoozedUntil"] == asleep["nextAttemptAt"]
    assert not {"errors", "lastError"} & asleep.keys()
    paid = bank.stage.shell("jobs", "get", "--json", bank.paid).json
    assert (paid["snoozes"], "snoozedUntil" in paid) == (1, False)
    explained = bank.stage.shell("jobs", "explain", "--json", bank.asleep).json
    assert (explained["because"], explained["details"]["snoozes"]) == ("snoozed", 1)


def test_a_job_that_was_never_snoozed_says_nothing_of_it(bank: Bank) -> None:
    [dead] = bank.stage.dead("503")
    assert "snooze" not in bank.stage.shell("jobs", "get", dead).out
    assert not [
        field for field in bank.stage.shell("jobs", "get", "--json", dead).json if "snooze" in field
    ]


def test_without_an_admin_runtime_the_log_says_the_same(tmp_path: Path) -> None:
    with EmbeddedServer.start() as server:
        asleep, _ = asyncio.run(snoozed_jobs(server.url))
        told = fields(shell("jobs", "get", asleep, env={"NATS_URL": server.url}).out)
    assert told["why"].strip() == "snoozed: the bank is closed"
    assert told["snoozes"].strip() == "1, the last one because: the bank is closed"
