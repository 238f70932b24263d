"""An admin runtime that is there and does not answer: said soon, and the log tells what it can."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.cli.stage import Stage, stage

HANGS = "an admin runtime is running, but did not answer"


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, str]]:
    """And a job that died before."""
    with stage(tmp_path_factory.mktemp("stage")) as made:
        [dead] = made.dead("the bank is away")
        made.admin.send(signal.SIGSTOP)
        yield made, dead


def test_what_only_it_can_tell_ends_with_4(hanging: tuple[Stage, str]) -> None:
    there, dead = hanging
    for command in (["jobs", "list"], ["jobs", "explain", dead], ["services"]):
        ended = there.shell(*command)
        assert (ended.code, ended.out) == (4, "")
        assert HANGS in ended.err
        assert "within 3 s" in ended.err
        assert "may have been stored" not in ended.err


def test_how_long_to_wait_is_an_option_and_the_error_says_what_to_do(
    hanging: tuple[Stage, str],
) -> None:
    """`dlq list --group` timed out after 3 s, and nothing said what one could do about it."""
    there, _ = hanging
    ended = there.shell("dlq", "list", "--group", "--timeout", "0.4")
    assert (ended.code, ended.out) == (4, "")
    assert "did not answer Jobs.GroupDLQ within 0.4 s" in ended.err
    assert "--service" in ended.err
    assert "--timeout" in ended.err
    changed = there.shell("dlq", "replay", "some-job", "--yes", "--timeout", "0.4")
    assert changed.code == 4
    assert "within 0.4 s" in changed.err


def test_a_job_is_read_from_the_log(hanging: tuple[Stage, str]) -> None:
    there, dead = hanging
    ended = there.shell("jobs", "get", "--json", dead)
    assert (ended.code, ended.json["state"]) == (0, "dead")
    assert HANGS in ended.err
    assert ended.err.endswith("within 3 s. Reading the log instead.\n")


def test_workers_are_read_from_the_log(hanging: tuple[Stage, str]) -> None:
    there, _ = hanging
    ended = there.shell("workers", "list", "--json")
    assert (ended.code, ended.json["workers"]) == (0, [])
    [process] = ended.json["processes"]
    assert (process["service"], process["state"]) == ("lab", "terminated")
    assert ended.err.endswith("within 3 s. Reading the heartbeats in the log instead.\n")


def test_a_change_that_it_may_still_make_is_not_made_directly(hanging: tuple[Stage, str]) -> None:
    """It paused a queue again that had been resumed meanwhile, as soon as it ran again."""
    there, _ = hanging
    ended = there.shell("queues", "pause", "lab/work", "--reason", "x", "--timeout", "0.4")
    assert (ended.code, ended.out) == (4, "")
    assert "within 0.4 s" in ended.err
    queues = there.shell("queues", "list", "--json").json["queues"]
    assert {each["paused"] for each in queues} == {False}


def test_doctor_says_so(hanging: tuple[Stage, str]) -> None:
    there, _ = hanging
    told = there.shell("doctor", "--json")
    assert told.code == 1
    sections = {each["name"]: each["findings"] for each in told.json["sections"]}
    [hangs] = sections["admin"]
    assert (hangs["level"], hangs["message"].startswith(HANGS)) == ("broken", True)
    [remedy] = told.json["toDo"]
    assert remedy.startswith("restart the admin runtime that does not answer")


def test_doctor_checks_permissions_of_the_server_meanwhile(hanging: tuple[Stage, str]) -> None:
    """It blamed the server and its inbox permissions when only the admin runtime hung."""
    there, _ = hanging
    sections = there.shell("doctor", "--json").json["sections"]
    [found] = [each["findings"] for each in sections if each["name"] == "permissions"]
    permitted, unknown = (each["message"] for each in found)
    assert permitted.startswith("permitted: see streams")
    assert unknown == "not known: ask the admin runtime, change jobs through it"
