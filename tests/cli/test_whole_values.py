"""What users wrote is shown as they wrote it: errors, keys and payloads, however they read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import orjson
import pytest

from jobs_admin.api.client import AdminClient
from tests.admin.admin_lab import until_shown
from tests.cli.stage import Stage, stage
from tests.support.example_service import Task
from tests.support.lab import producer
from trellis_jobs.model.states import JobState

ODD: Final = "POST [/vi/x] [type=int_parsing] :key: [bold]no[/bold]"
LONG: Final = "x" * 25_000
KEY: Final = "a:key:b [/c]"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """With a dead job of an odd error, and one that waits for an odd key."""
    with stage(tmp_path_factory.mktemp("stage")) as made:
        made.dead(ODD)
        payload = orjson.dumps({"origin": KEY}).decode()
        app = ("--app", "tests.cli.helpdesk:service")
        assert made.shell("jobs", "create", "helpdesk/patient", payload, *app).code == 0
        yield made


def test_neither_errors_nor_keys_are_taken_for_ways_of_drawing(there: Stage) -> None:
    [dead] = there.shell("jobs", "list", "--state", "dead", "--json").json["entries"]
    for command in (
        ("jobs", "get", dead["id"]),
        ("jobs", "explain", dead["id"]),
        ("jobs", "events", dead["id"]),
        ("dlq", "list", "--group"),
        ("dlq", "show", dead["id"]),
    ):
        assert ODD in there.shell(*command).out, command
    listing = ("jobs", "list", "--type", "patient")
    for showing in (listing, ("keys", "get", "helpdesk/patient", KEY)):
        assert KEY in there.shell(*showing).out, showing
    drawn = there.at_terminal("jobs", "list", columns=250).plain
    assert ODD in drawn
    assert KEY in drawn


def test_a_user_who_is_asked_sees_the_error_as_it_is(there: Stage) -> None:
    asked = there.at_terminal("dlq", "replay", "--error", "/vi/x", types="n\n", columns=250)
    assert ODD in asked.plain
    assert asked.code == 1


def test_a_pipe_gets_values_whole_however_long_they_are(there: Stage) -> None:
    payload = orjson.dumps({"origin": LONG}).decode()
    app = ("--app", "tests.cli.helpdesk:service")
    created = there.shell("jobs", "create", "helpdesk/merging", "-", *app, "--json", stdin=payload)
    for command in (
        ("jobs", "list", "--type", "merging"),
        ("jobs", "get", created.json["id"]),
        ("jobs", "events", created.json["id"]),
        ("jobs", "tail", "helpdesk/merging", "--since", "1h", "--limit", "1"),
        ("keys", "list"),
    ):
        piped = there.shell(*command)
        assert LONG in piped.out, command
        assert piped.code == 0


def test_a_list_of_large_jobs_is_as_long_as_asked_for(there: Stage) -> None:
    """`jobs list --limit 4` showed two jobs of 400 kB, because an answer is one message."""
    asyncio.run(_create_large(there.url, 4))
    large = ("jobs", "list", "--type", "slow")
    listed = there.shell(*large, "--limit", "4", "--json").json
    assert len({each["id"] for each in listed["entries"]}) == 4
    assert (listed["count"], "nextBefore" in listed, "nextOffset" in listed) == (4, False, False)
    part = there.shell(*large, "--limit", "3", "--json").json
    assert part["entries"] == listed["entries"][:3]
    assert (part["count"], part["nextOffset"], "nextBefore" in part) == (4, 3, True)
    assert there.shell(*large, "--limit", "3").out.splitlines()[-1] == "3 of 4 jobs"


async def _create_large(url: str, many: int) -> None:
    async with producer(url) as jobs, AdminClient.connect(url) as admin:
        refs = [await jobs.slow.create(Task(text="x" * 400_000)) for _ in range(many)]
        await until_shown(admin, [ref.id for ref in refs], JobState.PENDING)
