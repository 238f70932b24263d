"""`trellis-jobs keys`: who holds a key, who waits for it, and taking it from who is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.keys.names import KeyName, parse_key
from tests.admin.admin_lab import until_shown
from tests.admin.upkeep_lab import MaintainedProcess, producer, ward_process
from tests.cli.stage import Stage, stage
from tests.support.example_service import Task
from tests.support.facts import until
from trellis_jobs.model.states import JobState

KEY = ("ward/blocked", "ward:acme")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


async def _hold(url: str, process: MaintainedProcess) -> tuple[str, str]:
    """One holds the key, the other waits for it."""
    async with producer(url) as jobs:
        held = await jobs.blocked.create(Task())
        await process.until_begun(held)
        waits = await jobs.blocked.create(Task())
    async with AdminClient.connect(url) as admin:
        await until_shown(admin, [waits.id], JobState.PENDING)
    return held.id, waits.id


def test_a_key_from_hand_to_hand(there: Stage, tmp_path_factory: pytest.TempPathFactory) -> None:
    with ward_process(there.url, tmp_path_factory.mktemp("ward"), "blocked") as process:
        held, waits = asyncio.run(_hold(there.url, process))
        _it_is_listed(there)
        _it_is_shown(there, held, waits)
        _it_is_not_taken_from_who_lives(there, held)
        process.kill()
    _it_is_taken_from_who_is_gone(there, held, waits)


def _it_is_listed(there: Stage) -> None:
    listed = there.shell("keys", "list", "--service", "ward", "--type", "blocked", "--json")
    [key] = listed.json["entries"]
    assert (key["key"], key["active"], key["waiting"]) == ("ward:acme", 1, 1)
    assert there.shell("keys", "list", "--service", "unknown").out == "0 of 0 keys\n"
    assert "ward:acme" in there.at_terminal("keys", "list").plain


def _it_is_shown(there: Stage, held: str, waits: str) -> None:
    shown = there.at_terminal("keys", "get", *KEY).plain
    assert max(map(len, shown.splitlines())) <= 80
    assert f"\n{held}  " in shown
    assert f"\n1  {waits}  " in shown
    assert "1 (limit 1)" in shown
    told = there.shell("keys", "get", "ward", "blocked", "ward:acme", "--json").json
    assert [slot["jobId"] for slot in told["active"]] == [held]
    assert [job["jobId"] for job in told["queued"]] == [waits]
    assert there.shell("keys", "get", "ward/blocked", "unknown").code == 3


def _it_is_not_taken_from_who_lives(there: Stage, held: str) -> None:
    refused = there.shell("keys", "release", *KEY, held, "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "to stop the job, cancel it" in refused.err
    assert there.shell("keys", "release", *KEY, held).code == 2
    whose = there.shell("keys", "release", "ward", "blocked", "ward:acme", "--yes")
    assert whose.code == 2
    assert "name the key and its holder: SERVICE/TYPE KEY JOB_ID" in whose.err
    kept = there.at_terminal("keys", "release", *KEY, held, types="n\n")
    assert kept.code == 1
    assert f"Release key 'ward:acme' of ward/blocked, held by job {held}?" in kept.plain
    assert "Nothing was changed" in kept.plain


def _it_is_taken_from_who_is_gone(there: Stage, held: str, waits: str) -> None:
    why = ("--by", "ann", "--reason", "its machine burnt down")

    def released() -> str | None:
        ended = there.shell("keys", "release", *KEY, held, "--yes", *why)
        return ended.out if ended.code == 0 else None

    shown = asyncio.run(until(released, "its lease is over"))
    assert "no job holds this key" in shown
    assert waits in shown
    error = there.job(held).last_error or ""
    assert "released by ann: its machine burnt down" in error


@pytest.mark.parametrize("words", [["ward", "blocked", "a/b"], ["ward/blocked", "a/b"]])
def test_a_key_may_have_slashes(words: list[str]) -> None:
    assert parse_key(words) == KeyName("ward", "blocked", "a/b")


@pytest.mark.parametrize("words", [[], ["ward"], ["ward", "a"], ["a/b/c", "d"], list("abcd")])
def test_which_key_is_meant_must_be_clear(words: list[str]) -> None:
    with pytest.raises(UsageError, match="SERVICE/TYPE KEY"):
        parse_key(words)
