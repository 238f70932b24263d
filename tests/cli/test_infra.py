"""`trellis-jobs infra`: compare what jobs need on the server with what is there, and create it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cli.stage import Place
from tests.support.former_installation import install
from tests.support.lab import probe
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision

APP = ("--app", "tests.cli.shop:service")
STREAMS = [
    "JOBS",
    "JOBS/to-work",
    "JOBS_WORK",
    "JOBS_ADVISORIES",
    "KV_JOBS_KEYS",
    "JOBS_CONTROL",
    "JOBS_ALARMS_shop",
]
QUEUES = [f"JOBS_WORK/shop-{name}" for name in ("greet", "nap", "shrug", "unhandled")]


@pytest.fixture
def there(server: EmbeddedServer) -> Place:
    return Place(server.url)


def acts(told: Any) -> dict[str, str]:
    return {each["name"]: each["act"] for each in told["changes"]}


def update_stream(there: Place, name: str, **changes: Any) -> None:
    async def update() -> None:
        async with probe(there.url) as raw:
            config = (await api.request(raw.connection, f"STREAM.INFO.{name}"))["config"]
            await api.request(raw.connection, f"STREAM.UPDATE.{name}", config | changes)

    asyncio.run(update())


def test_what_is_missing_is_planned_then_made_then_kept(there: Place) -> None:
    plan = there.shell("infra", "plan", *APP, "--json")
    assert (plan.code, plan.json["unchanged"]) == (0, False)
    assert acts(plan.json) == dict.fromkeys([*STREAMS, *QUEUES], "create")
    assert there.shell("infra", "check", *APP).code == 1

    made = there.shell("infra", "apply", *APP, "--json")
    assert made.code == 0, made.err
    assert acts(made.json) == dict.fromkeys([*STREAMS, *QUEUES], "created")

    check = there.shell("infra", "check", *APP, "--json")
    assert (check.code, check.json["unchanged"]) == (0, True)
    assert set(acts(check.json).values()) == {"keep"}
    assert there.shell("infra", "apply", *APP).code == 0
    queues = there.shell("queues", "list", "--json").json["queues"]
    assert [each["drift"] for each in queues] == [[]] * len(QUEUES)


def test_a_service_is_named_as_an_argument_or_with_app_but_not_twice(there: Place) -> None:
    named = there.shell("infra", "plan", APP[1], "--json")
    assert acts(named.json) == dict.fromkeys([*STREAMS, *QUEUES], "create")
    twice = there.shell("infra", "plan", APP[1], *APP)
    assert twice.code == 2
    assert "name the service once: as an argument or with --app" in twice.err


def test_what_is_in_use_is_changed_only_when_the_user_agrees(there: Place) -> None:
    there.shell("infra", "apply")
    update_stream(there, "JOBS_WORK", max_msgs=1000)
    check = there.shell("infra", "check")
    assert check.code == 1
    assert "max_msgs should be -1, is 1000" in check.out
    assert "`trellis-jobs infra apply`; nothing was changed\n" in check.err

    unasked = there.shell("infra", "apply")
    assert unasked.code == 2
    assert "not a terminal, cannot ask for confirmation" in unasked.err
    refused = there.at_terminal("infra", "apply", types="n\n")
    assert refused.code == 1
    assert "Nothing was changed" in refused.plain
    assert there.shell("infra", "check").code == 1

    agreed = there.at_terminal("infra", "apply", types="y\n")
    assert agreed.code == 0
    assert "updated" in agreed.plain
    assert there.shell("infra", "check").code == 0


def test_what_older_servers_do_not_know_fails_no_check_and_is_turned_on_by_who_applies(
    there: Place,
) -> None:
    there.shell("infra", "apply")
    update_stream(there, "JOBS", allow_atomic=False, allow_batched=False)
    check = there.shell("infra", "check", "--json")
    assert (check.code, check.json["unchanged"], check.err) == (0, True, "")
    told = check.json["changes"][0]["details"]
    assert [each.partition(":")[0] for each in told] == [
        "allow_atomic is off",
        "allow_batched is off",
    ]
    looked = there.shell("doctor", "--json")
    streams = next(each for each in looked.json["sections"] if each["name"] == "streams")
    assert streams["findings"][0]["level"] == "note"
    plan = there.shell("infra", "plan", "--json")
    assert acts(plan.json)["JOBS"] == "update"
    assert "no server older than 2.14 can hold the stream" in str(plan.json["changes"][0])
    assert there.shell("infra", "apply").code == 2, "the user has to agree"
    assert acts(there.shell("infra", "apply", "--yes", "--json").json)["JOBS"] == "updated"
    assert there.shell("infra", "plan", "--json").json["unchanged"]


def test_lanes_fail_no_check_of_an_older_installation_and_are_added_by_who_applies(
    there: Place,
) -> None:
    async def install_as_before() -> None:
        async with probe(there.url) as raw:
            await install(raw)
            await provision(raw.connection, Topology(raw.features))

    asyncio.run(install_as_before())
    missing = "it does not copy jobs with a priority"
    check = there.shell("infra", "check", "--json")
    assert check.code == 0, check.err
    [hint] = [each for change in check.json["changes"] for each in change["details"]]
    assert missing in hint
    assert "older versions cannot start afterwards" in hint
    plan = there.shell("infra", "plan")
    assert missing in " ".join(plan.out.split())
    assert "after the change older versions of this library cannot start" in plan.out
    assert there.shell("infra", "apply").code == 2, "the user has to agree"
    applied = there.shell("infra", "apply", "--yes", "--json")
    assert acts(applied.json)["JOBS/to-work"] == "updated"
    assert there.shell("infra", "plan", "--json").json["unchanged"]
    assert missing not in there.shell("infra", "check", "--json").out


def test_what_would_endanger_jobs_is_refused_and_everything_else_still_told(there: Place) -> None:
    there.shell("infra", "apply")
    update_stream(there, "JOBS_ADVISORIES", subjects=["something.else"])
    update_stream(there, "JOBS", allow_direct=False)
    plan = there.shell("infra", "plan", "--json")
    assert plan.code == 0
    told = acts(plan.json)
    assert (told["JOBS_ADVISORIES"], told["JOBS"], told["JOBS_WORK"]) == (
        "refuse",
        "update",
        "keep",
    )
    for command in (("check",), ("apply", "--yes")):
        refused = there.shell("infra", *command)
        assert refused.code == 1
        assert refused.err.startswith("error: ")
        assert refused.err.endswith("make them by hand; nothing was changed\n")
    assert acts(there.shell("infra", "plan", "--json").json) == told, "nothing was changed"


def test_on_a_terminal_names_are_whole(there: Place) -> None:
    ended = there.at_terminal("infra", "plan", *APP, columns=60)
    assert ended.code == 0
    assert not [line for line in ended.plain.splitlines() if len(line) > 60]
    assert all(name in ended.plain for name in [*STREAMS, *QUEUES])


def test_without_a_server_it_ends_with_4(there: Place) -> None:
    for verb in ("plan", "check", "apply"):
        ended = there.shell("infra", verb, "--nats", "nats://127.0.0.1:1")
        assert (ended.code, ended.out) == (4, "")
