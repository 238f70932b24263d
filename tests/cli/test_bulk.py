"""Bulk changes on the command line: which jobs, who is asked, what is done, what is told."""

from __future__ import annotations

import asyncio
import getpass
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pytest

from jobs_admin.api.client import AdminClient
from tests.admin.admin_lab import until_shown
from tests.cli.command import running
from tests.cli.shell import shell
from tests.cli.stage import Stage, stage
from tests.cli.terminal import on_a_terminal
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import producer
from trellis_jobs.model.states import JobState

# Jobs per second, so few that an operation lasts longer than a busy machine needs to stop it.
SLOWLY: Final = "0.4"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


def test_jobs_named_by_id_are_changed_and_counted(there: Stage) -> None:
    ids = there.dead("a", "b")
    ended = there.shell("dlq", "replay", *ids, "--yes", "--reason", "the bank is back")
    assert (ended.code, ended.out, ended.err) == (0, "replayed 2 jobs\n", "")
    job = there.job(ids[0])
    assert job.state is JobState.PENDING
    assert job.begun_by == getpass.getuser()
    assert job.earlier_runs[0].errors[0].message == "a"


def test_without_a_terminal_it_says_how_many_jobs_it_would_touch(there: Stage) -> None:
    [dead] = there.dead("not confirmed")
    refused = there.shell("dlq", "replay", dead)
    assert (refused.code, refused.out) == (2, "")
    assert "add --yes to replay 1 job; nothing was changed" in refused.err
    assert there.job(dead).state is JobState.DEAD


def test_where_nothing_matches_no_confirmation_is_needed(there: Stage) -> None:
    ended = there.shell("dlq", "replay", "--error", "no job died of this")
    assert (ended.code, ended.out) == (0, "no jobs match; nothing was changed\n")


def test_who_and_why_are_recorded(there: Stage) -> None:
    [dead] = there.dead("c")
    who = ("--by", "ann", "--reason", "not needed")
    assert there.shell("dlq", "dismiss", dead, "--yes", *who).code == 0
    job = there.job(dead)
    assert (job.state, job.by, job.reason) == (JobState.DISMISSED, "ann", "not needed")


def test_ids_are_read_from_stdin_each_once(there: Stage) -> None:
    ids = there.dead("d", "e")
    printed = f"{ids[0]}\n\n  lab/single/{ids[1]}\n{ids[0]}\n"
    ended = there.shell("jobs", "retry", "-", "--yes", "--json", stdin=printed)
    assert ended.code == 0
    assert (ended.json["asked"], ended.json["done"]) == (2, 2)
    assert there.shell("jobs", "retry", "-", "--yes").out == "no jobs match; nothing was changed\n"


def test_a_filter_changes_all_that_match_and_no_others(there: Stage) -> None:
    matching, other = there.dead(*["disk is full"] * 5), there.dead("disk is gone")
    ended = there.shell("dlq", "dismiss", "--error", "IS FULL", "--yes")
    assert (ended.code, ended.out) == (0, "dismissed 5 jobs\n")
    assert {there.job(each).state for each in matching} == {JobState.DISMISSED}
    assert there.job(other[0]).state is JobState.DEAD


def test_a_filter_means_only_jobs_that_can_be_changed_so(there: Stage) -> None:
    created = asyncio.run(_create(there, 3))
    [dead] = there.dead("of the same queue")
    ended = there.shell("jobs", "cancel", "--type", "mute", "--yes", "--json")
    assert ended.code == 0
    assert (ended.json["asked"], ended.json["done"]) == (3, 3)
    assert {there.job(each).state for each in created} == {JobState.CANCELLED}
    assert there.shell("jobs", "cancel", "--id-prefix", dead, "--yes").out.startswith("no job")
    state = ("--state", "dead")
    assert there.shell("jobs", "retry", "--id-prefix", dead, *state, "--yes").out == (
        "retried 1 job\n"
    )


async def _create(there: Stage, count: int) -> list[str]:
    async with producer(there.url) as jobs:
        ids = [(await jobs.mute.create(Task())).id for _ in range(count)]
    async with AdminClient.connect(there.url) as admin:
        await until_shown(admin, ids, JobState.PENDING)
    return ids


def test_what_is_not_clear_is_refused_before_anybody_is_asked() -> None:
    """There is no server at all, and that is not printed."""
    nowhere = {"NATS_URL": "nats://127.0.0.1:1"}
    for arguments, advice in {
        ("dlq", "replay", "--yes"): "give the ids of the jobs to replay",
        ("jobs", "cancel", "--since", "yesterday", "--yes"): "yesterday",
        ("jobs", "retry", "01J", "--rate", "0", "--yes"): "--rate",
    }.items():
        ended = shell(*arguments, env=nowhere)
        assert (ended.code, ended.out) == (2, "")
        assert advice in ended.err


def test_everything_must_be_asked_for_and_is_then_done(tmp_path: Path) -> None:
    with stage(tmp_path) as alone:
        ids = alone.dead("f", "g", "h")
        assert alone.shell("dlq", "dismiss", "--everything", "--yes").out == "dismissed 3 jobs\n"
        assert {alone.job(each).state for each in ids} == {JobState.DISMISSED}


@pytest.mark.parametrize(("answer", "state"), [("y\n", JobState.DISMISSED), ("\n", JobState.DEAD)])
def test_a_user_at_a_terminal_sees_which_jobs_and_is_asked(
    there: Stage, answer: str, state: JobState
) -> None:
    [dead] = there.dead("to be seen")
    ended = there.at_terminal("dlq", "dismiss", dead, types=answer)
    assert "Dismiss 1 job? [y/N]" in ended.plain
    assert dead in ended.plain
    assert there.job(dead).state is state
    done = state is JobState.DISMISSED
    assert ended.code == (0 if done else 1)
    assert ("dismissed 1 job" if done else "Nothing was changed") in ended.plain


def test_a_dry_run_tells_how_many_and_which_and_changes_nothing(there: Stage) -> None:
    ids = there.dead(*["a lot of these"] * 12)
    ended = there.shell("dlq", "replay", "--error", "a lot", "--dry-run")
    assert ended.code == 0
    assert ids[-1] in ended.out
    assert ids[0] not in ended.out
    assert "… and 2 more\ndry run: replay would affect 12 jobs; nothing was changed\n" in ended.out
    told = there.shell("dlq", "replay", ids[0], "nope", "--dry-run", "--json").json
    job = {"id": ids[0], "service": "lab", "type": "single", "state": "dead"}
    assert told == {
        "verb": "replay",
        "dryRun": True,
        "count": 2,
        "jobs": [job],
        "notFound": ["nope"],
    }
    assert {there.job(each).state for each in ids} == {JobState.DEAD}


def test_a_job_in_another_state_refuses_and_the_command_says_so(there: Stage) -> None:
    [dead] = there.dead("i")
    assert there.shell("dlq", "replay", dead, "--yes").code == 0
    again = there.shell("dlq", "replay", dead, "nope", "--yes")
    assert again.code == 1
    assert again.out.startswith("replayed 0 of 2 jobs\n1 refused: still pending\n")
    assert "1 not found\n" in again.out
    told = there.shell("dlq", "replay", dead, "nope", "--yes", "--json").json
    counts = {"asked": 2, "done": 0, "refused": 1, "notFound": 1, "unclear": 0}
    assert counts.items() <= told.items()
    reasons = {each["id"]: (each["reason"], each.get("state")) for each in told["refusals"]}
    assert reasons == {dead: ("wrong-state", "pending"), "nope": ("not-found", None)}


def test_an_interruption_finishes_what_is_under_way_and_tells_how_far_it_came(
    there: Stage, tmp_path: Path
) -> None:
    ids = there.dead(*["interrupted"] * 40)
    replay = ("dlq", "replay", "--error", "interrupted", "--yes", "--rate", SLOWLY)
    with running(tmp_path, *replay, "--nats", there.url) as command:
        asyncio.run(_until_some_are_replayed(there, ids))
        command.send(signal.SIGINT)
        assert asyncio.run(command.until_exit()) == 1
        printed = command.printed
    found = re.search(r"replayed (\d+) of 40 jobs\n", printed)
    assert found is not None, printed
    done = int(found[1])
    assert f"stopped: interrupted; {40 - done} jobs not processed" in printed
    states = [there.job(each).state for each in ids]
    assert states == [JobState.DEAD] * (40 - done) + [JobState.PENDING] * done


def test_without_an_admin_runtime_the_command_ends_with_4_and_says_that_it_goes_on(
    tmp_path: Path,
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    replay = ("dlq", "replay", "--error", "cut short", "--yes", "--rate", SLOWLY, "--json")
    with stage(there) as alone:
        ids = alone.dead(*["cut short"] * 40)
        with running(here, *replay, "--nats", alone.url) as command:
            asyncio.run(_until_some_are_replayed(alone, ids))
            alone.admin.send(signal.SIGKILL)
            assert asyncio.run(command.until_exit()) == 4, command.printed
            started, _, printed = command.printed.partition("started\n")
    name = started.split()[1]
    told, _, rest = printed.partition("}\noperation ")
    assert f"show it with `trellis-jobs operations get {name}`" in rest
    counts = orjson.loads(f"{told}}}")
    assert counts["operation"] == name
    assert counts["done"] < counts["asked"] == 40


async def _until_some_are_replayed(there: Stage, ids: list[str]) -> None:
    """The newest goes first."""
    async with AdminClient.connect(there.url) as admin:

        async def replayed() -> bool:
            return (await admin.get(ids[-2])).state is JobState.PENDING

        await until(replayed, "some are replayed")


def test_operations_are_listed_shown_and_stopped(there: Stage, tmp_path: Path) -> None:
    ids = there.dead(*["to be stopped"] * 30)
    replay = ("dlq", "replay", "--error", "to be stopped", "--yes", "--rate", SLOWLY)
    with running(tmp_path, *replay, "--nats", there.url, "--reason", "try it") as command:
        asyncio.run(_until_some_are_replayed(there, ids))
        [entry, *_] = there.shell("operations", "list", "--json").json["entries"]
        assert (entry["verb"], entry["state"], entry["total"]) == ("replay", "running", 30)
        name = entry["id"]
        shown = there.shell("operations", "get", name)
        assert "error=to be stopped" in shown.out
        assert "try it" in shown.out
        stopped = there.shell("operations", "stop", name, "--by", "ben", "--reason", "hm", "--json")
        assert stopped.json["operation"]["state"] == "stopping"
        assert asyncio.run(command.until_exit()) == 1
        assert "stopped: by ben; " in command.printed
    ended = there.shell("operations", "get", name, "--json").json["operation"]
    assert (ended["state"], ended["stoppedBy"]) == ("stopped", "ben")
    assert 0 < ended["done"] < 30
    listed = there.shell("operations", "list").out
    assert name in listed
    assert there.shell("operations", "stop", name).code == 1
    audit = there.shell("audit", "list", "--verb", "stop", "--json").json["entries"]
    assert [(each["by"], each["reason"]) for each in audit if each["id"] == name] == [("ben", "hm")]
    assert there.shell("operations", "get", "nothing").code == 3


@pytest.mark.parametrize(("answer", "state"), [("n", "running"), ("y", "stopped")])
def test_at_a_terminal_ctrl_c_asks_whether_to_stop_or_to_leave_it_running(
    there: Stage, answer: str, state: str
) -> None:
    text = f"interrupted at a terminal, {answer}"
    ids = there.dead(*[text] * 30)
    replay = ("dlq", "replay", "--error", text, "--yes", "--rate", SLOWLY, "--nats", there.url)

    async def interrupt() -> str:
        with on_a_terminal(*replay) as (process, terminal):
            await _until_some_are_replayed(there, ids)
            process.send_signal(signal.SIGINT)
            await until(lambda: "Stop operation" in terminal.plain_text, "it asks")
            terminal.type(f"{answer}\n")
            await terminal.until_closed()
            return terminal.plain_text

    printed = " ".join(asyncio.run(interrupt()).split())
    [operation] = [
        entry
        for entry in there.shell("operations", "list", "--json").json["entries"]
        if entry["filter"].get("error") == text
    ]
    assert operation["state"] == state
    if state == "running":
        assert f"trellis-jobs operations stop {operation['id']}" in printed
        there.shell("operations", "stop", operation["id"])
    else:
        assert "stopped: interrupted" in printed


def test_ids_of_no_job_at_all_end_with_3(there: Stage) -> None:
    ended = there.shell("jobs", "cancel", "nope", "nor-this", "--yes")
    assert ended.code == 3
    assert "2 not found\n" in ended.out
