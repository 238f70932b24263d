"""`trellis-jobs schedules`: what operators see of schedules, and how they change them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.cli.schedules.names import parse_schedule
from tests.cli.command import running
from tests.cli.shell import Ended
from tests.cli.stage import Stage, stage
from tests.cli.test_completion import _completed
from tests.support.facts import until

LIST = ("schedules", "list")
NIGHTLY, HOURLY, ACME = "office/report/nightly", "office/report/hourly", "office/report/acme"
PAYLOAD = '{"customer":"acme"}'
DAILY = ("--cron", "0 9 * * 1-5", "--tz", "America/New_York")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """With a worker, which makes the declared schedules when it starts."""
    folder, of_worker = (tmp_path_factory.mktemp(name) for name in ("stage", "worker"))
    with (
        stage(folder) as made,
        running(of_worker, "worker", "tests.cli.office:service", "--nats", made.url),
    ):
        asyncio.run(until_listed(made, 2))
        yield made


async def until_listed(there: Stage, count: int) -> None:
    def all_there() -> bool:
        return bool(there.shell(*LIST, "--json").json["count"] == count)

    await until(all_there, f"{count} schedules are listed")


def until_true(fact: Callable[[], bool], words: str) -> None:
    asyncio.run(until(fact, words))


@pytest.fixture
def acme(there: Stage) -> Iterator[Ended]:
    yield there.shell("schedules", "put", ACME, PAYLOAD, *DAILY, "--by", "ann")
    there.shell("schedules", "delete", ACME, "--yes")


def test_declared_schedules_are_listed_in_words(there: Stage) -> None:
    ended = there.shell(*LIST)
    assert (ended.code, ended.err) == (0, "")
    header, hourly, nightly, total = ended.out.splitlines()
    assert re.split(r"  +", header) == ["schedule", "when", "next", "local time", "UTC", "last run"]
    assert re.match(rf"{HOURLY} +Every 1 h +in .*T\d\d:00:00Z", hourly)
    assert nightly.startswith(f"{NIGHTLY}  At 02:30 every day (Europe/Berlin)  in ")
    assert total == "2 of 2 schedules"


def test_lists_are_filtered_and_limited(there: Stage) -> None:
    assert there.shell(*LIST, "--service", "another").out == "0 of 0 schedules\n"
    listed = there.shell(*LIST, "--type", "report", "--limit", "1", "--json").json
    assert (len(listed["entries"]), listed["count"], listed["nextOffset"]) == (1, 2, 1)


def test_on_a_narrow_terminal_names_and_next_ticks_stay(there: Stage) -> None:
    lines = there.at_terminal(*LIST, columns=70).plain.splitlines()
    assert lines[0].split() == ["schedule", "when", "next"]
    assert lines[1].startswith(f"{HOURLY} ")
    assert all(len(line.rstrip()) <= 70 for line in lines)


def test_times_are_local_in_any_zone_and_in_utc(there: Stage) -> None:
    zones = {zone: _times(there, zone) for zone in ("UTC", "Asia/Kolkata")}
    (in_utc, utc), (in_kolkata, same) = zones.values()
    assert utc == same
    assert in_utc == utc
    assert in_kolkata - in_utc == timedelta(hours=5.5)


def _times(there: Stage, zone: str) -> tuple[datetime, datetime]:
    """The local time and UTC of the nightly job."""
    ended = there.at_terminal(*LIST, columns=200, env={"TZ": zone})
    found = re.search(r"(\d{4}-\d\d-\d\d [\d:]+)  (\d{4}-\d\d-\d\dT[\d:]+)Z", ended.plain)
    assert found is not None, ended.plain
    local, utc = (datetime.fromisoformat(text) for text in found.groups())
    return local, utc


def test_a_schedule_is_shown_with_its_policies_and_ten_ticks(there: Stage) -> None:
    ended = there.shell("schedules", "get", NIGHTLY)
    assert ended.code == 0
    facts = dict(re.split(r"  +", line, maxsplit=1) for line in ended.out.splitlines()[:8])
    assert facts["schedule"] == NIGHTLY
    assert facts["when"] == "At 02:30 every day (Europe/Berlin) [30 2 * * *]"
    assert re.fullmatch(r"in .*: [\d-]+ [\d:]+ local time, [\d-]+T[\d:]+Z", facts["next"])
    assert facts["defined"] == "in the code of service office"
    assert facts["missed ticks"] == "one job, for the newest"
    assert facts["previous job"] == "if it has not ended, the new job is created beside it"
    assert facts["payload"] == '{"customer":"all"}'
    assert len(re.findall(r"02:30:00 CES?T", ended.out)) == 10
    shown = there.shell("schedules", "get", NIGHTLY, "--json").json["schedule"]
    assert (shown["definition"]["cron"], len(shown["nextTicks"])) == ("30 2 * * *", 10)


def test_the_next_ticks_are_printed(there: Stage) -> None:
    ended = there.shell("schedules", "next", NIGHTLY, "--count", "3")
    assert (ended.code, ended.err) == (0, "")
    header, *ticks = ended.out.splitlines()
    assert re.split(r"  +", header) == ["Europe/Berlin", "local time", "UTC", "in"]
    assert len(ticks) == 3
    printed = there.shell("schedules", "next", HOURLY, "--json").json
    assert (printed["service"], printed["type"], printed["name"]) == tuple(HOURLY.split("/"))
    moments = [datetime.fromisoformat(each["tick"]) for each in printed["ticks"]]
    assert len(moments) == 10
    assert {after - before for before, after in pairwise(moments)} == {timedelta(hours=1)}


def test_a_schedule_is_made_and_the_same_again_changes_nothing(there: Stage, acme: Ended) -> None:
    words = "At 09:00 on Monday through Friday (America/New_York)"
    assert acme.code == 0
    assert acme.out.startswith(f"{ACME} created: {words}; next tick in ")
    again = there.shell("schedules", "put", ACME, PAYLOAD, *DAILY, "--by", "bob")
    assert again.out.startswith(f"{ACME} is as it was: ")
    changed = there.shell(
        *("schedules", "put", ACME, PAYLOAD, "--every", "90m", "--jitter", "5m", "--by", "bob"),
        *("--catch-up", "all", "--max-catch-up", "3", "--overlap", "cancel-running"),
        *("--start", "2027-01-01T00:00Z", "--end", "2027-02-01T00:00Z", "--json"),
    ).json
    assert (changed["outcome"], changed["payloadChecked"]) == ("changed", True)
    schedule = changed["schedule"]
    assert (schedule["origin"], schedule["by"]) == ("runtime", "bob")
    assert schedule["definition"] == {
        "everyMs": 5_400_000,
        "jitterMs": 300_000,
        "start": "2027-01-01T00:00:00Z",
        "end": "2027-02-01T00:00:00Z",
        "catchUp": "all",
        "maxCatchUp": 3,
        "overlap": "cancel-running",
    }
    assert re.search(r"UTC +in +job is created\n", there.shell("schedules", "next", ACME).out)


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ((ACME, '{"customer":5}', *DAILY), 1, "customer: 5 is not of type 'string'"),
        ((ACME, "{", *DAILY), 2, "Invalid value for JSON"),
        ((ACME, PAYLOAD), 2, "give either --cron or --every"),
        ((ACME, PAYLOAD, "--every", "5m", "--tz", "UTC"), 2, "--tz needs --cron"),
        ((ACME, PAYLOAD, "--every", "often"), 2, "is not a duration"),
        ((ACME, PAYLOAD, "--cron", "0 25 * * *"), 1, "the hour field '25' is not valid"),
        ((ACME, PAYLOAD, "--cron", "0 9 * * *", "--tz", "Berlin"), 1, "Europe/Berlin?"),
        ((NIGHTLY, PAYLOAD, *DAILY), 1, "is declared in the code of its service"),
        (("office/unknown/x", PAYLOAD, *DAILY), 3, "there is no queue office/unknown"),
        (("office/report", PAYLOAD, *DAILY), 2, "is not of the form service/type/name"),
        (("office/report/a b", PAYLOAD, *DAILY), 2, "is not of the form service/type/name"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_said(
    there: Stage, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    ended = there.shell("schedules", "put", *arguments)
    assert ended.code == code
    assert problem in " ".join(re.sub(r"[│\n]", " ", ended.err).split())


def test_a_paused_schedule_says_who_why_and_until_when(there: Stage) -> None:
    pause = ("schedules", "pause", HOURLY, "--reason", "the bank is away", "--by", "ann")
    assert there.shell(*pause).out == (
        f"{HOURLY} is paused by ann until it is resumed: the bank is away\n"
    )
    assert (
        f"{HOURLY}: paused by ann until it is resumed: the bank is away\n" in there.shell(*LIST).out
    )
    assert "These ticks create no jobs until" in there.shell("schedules", "get", HOURLY).out
    assert "is paused: these ticks" in there.shell("schedules", "next", HOURLY).err

    shown = there.shell(*pause, "--for", "2h", "--json").json["schedule"]["paused"]
    length = datetime.fromisoformat(shown["until"]) - datetime.fromisoformat(shown["since"])
    assert length == timedelta(hours=2)
    end = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    shown = there.shell(*pause, "--until", end.isoformat(), "--json").json["schedule"]["paused"]
    assert datetime.fromisoformat(shown["until"]) == end

    assert there.shell("schedules", "resume", HOURLY).out.startswith(
        f"{HOURLY} is resumed; next tick in "
    )
    assert there.shell("schedules", "resume", HOURLY).out == f"{HOURLY} was not paused\n"


@pytest.mark.parametrize(
    ("more", "code", "problem"),
    [
        (("--for", "2h", "--until", "14:30"), 2, "give either --for or --until"),
        (("--until", "2020-01-01T00:00Z"), 1, "the pause would end in the past"),
        (("--for", "5000d"), 2, "is longer than 3650 days"),
    ],
)
def test_a_wrong_pause_is_refused(
    there: Stage, more: tuple[str, ...], code: int, problem: str
) -> None:
    ended = there.shell("schedules", "pause", HOURLY, "--reason", "x", *more)
    assert ended.code == code
    assert problem in " ".join(re.sub(r"[│\n]", " ", ended.err).split())


def test_a_triggered_schedule_prints_the_job_that_a_worker_creates(there: Stage) -> None:
    ended = there.shell("schedules", "trigger", HOURLY, "--by", "ann")
    printed = re.fullmatch(rf"{HOURLY} is triggered: a worker creates job (\w+)\n", ended.out)
    assert printed is not None, ended
    job_id = printed[1]

    def has_completed() -> bool:
        return bool(re.search(rf"{job_id}  completed +ann", _shown(there)))

    until_true(has_completed, "its job completed")
    detail = there.shell("jobs", "get", job_id).out
    assert "created by schedule hourly, which someone triggered" in detail
    from_log = there.shell("jobs", "get", job_id, "--at", "0s").out
    assert re.search(r"created by +schedule hourly, which someone triggered", from_log), from_log
    explained = there.shell("jobs", "explain", job_id, "--json").json
    assert explained["details"]["schedule"] == "hourly"


def _shown(there: Stage) -> str:
    return there.shell("schedules", "get", HOURLY).out


def test_ticks_and_their_jobs_are_shown(there: Stage) -> None:
    name = "office/report/often"
    there.shell("schedules", "put", name, PAYLOAD, "--every", "1s")

    def runs() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = there.shell("schedules", "get", name, "--json").json[
            "schedule"
        ]["runs"]
        return found

    until_true(lambda: any(run.get("state") == "completed" for run in runs()), "a job completed")
    there.shell("schedules", "delete", name, "--yes")
    run = next(each for each in runs_of(there) if each["schedule"] == "often")
    assert "created by schedule often for the tick " in there.shell("jobs", "get", run["id"]).out


def runs_of(there: Stage) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = there.shell("jobs", "list", "--json").json["entries"]
    return [each for each in entries if "schedule" in each]


def test_a_schedule_is_deleted_after_a_confirmation(there: Stage, acme: Ended) -> None:
    assert acme.code == 0
    ended = there.shell("schedules", "delete", ACME)
    assert ended.code == 2
    assert "add --yes to delete schedule office/report/acme" in ended.err
    assert there.at_terminal("schedules", "delete", ACME, types="n\n").code == 1
    assert there.shell("schedules", "delete", ACME, "--yes", "--json").json == {
        "service": "office",
        "type": "report",
        "name": "acme",
        "deleted": True,
    }
    assert there.shell("schedules", "delete", ACME, "--yes").code == 3


def test_the_audit_says_why_a_schedule_was_changed(there: Stage) -> None:
    name = "office/report/audited"
    there.shell("schedules", "put", name, PAYLOAD, *DAILY, "--reason", "for Acme")
    there.shell("schedules", "pause", name, "--reason", "holidays")
    there.shell("schedules", "resume", name, "--reason", "January")
    there.shell("schedules", "trigger", name, "--reason", "one is missing")
    there.shell("schedules", "delete", name, "--yes", "--reason", "Acme left")
    entries = there.shell("audit", "list", "--target", "schedule", "--json").json["entries"]
    assert [(each["verb"], each["reason"]) for each in entries if each["id"] == "audited"] == [
        ("delete", "Acme left"),
        ("trigger", "one is missing"),
        ("resume", "January"),
        ("pause", "holidays"),
        ("put", "for Acme"),
    ]
    assert "one is missing" in there.shell("audit", "list", "--target", "schedule").out


def test_declared_schedules_are_not_deleted(there: Stage) -> None:
    ended = there.shell("schedules", "delete", NIGHTLY, "--yes")
    assert (ended.code, ended.out) == (1, "")
    assert "is declared in the code of its service: change it there, or pause it" in ended.err


@pytest.mark.parametrize("verb", ["get", "next", "resume", "trigger"])
def test_a_schedule_that_does_not_exist_has_its_own_exit_code(there: Stage, verb: str) -> None:
    ended = there.shell("schedules", verb, ACME)
    assert (ended.code, ended.err) == (3, f"error: there is no schedule {ACME}\n")


def test_names_are_read() -> None:
    assert str(parse_schedule(NIGHTLY)) == NIGHTLY


def test_verbs_policies_and_time_zones_complete() -> None:
    assert set(_completed("trellis-jobs schedules p")) == {"pause", "put"}
    assert _completed("trellis-jobs schedules put --overlap can") == ["cancel-running"]
    assert _completed("trellis-jobs schedules put --tz Europe/Berl") == ["Europe/Berlin"]


def test_no_worker_is_said_when_none_runs(tmp_path: Path) -> None:
    with stage(tmp_path) as made:
        of_worker = tmp_path / "worker"
        of_worker.mkdir()
        with running(of_worker, "worker", "tests.cli.office:service", "--nats", made.url) as worker:
            asyncio.run(until_listed(made, 2))
            worker.process.terminate()
            asyncio.run(worker.until_exit())

        def says_so() -> bool:
            return (
                "No worker of office is running" in made.shell("schedules", "trigger", HOURLY).err
            )

        until_true(says_so, "the command says that no worker runs")
        assert "not created yet" in _shown(made)
