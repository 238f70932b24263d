"""`trellis-jobs infra` makes the streams for alarms of services, and keeps them up to date."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cli.stage import Place
from tests.cli.test_infra import acts, update_stream
from tests.support.lab import probe, producer
from tests.support.servers import start_version
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.alarms_streams import services_with_alarms

APP = "tests.cli.shop:service"
STREAM = "JOBS_ALARMS_shop"


@pytest.fixture
def there(server: EmbeddedServer) -> Place:
    return Place(server.url)


def settings(there: Place, stream: str) -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        async with probe(there.url) as raw:
            info = await api.request(raw.connection, f"STREAM.INFO.{stream}")
        config: dict[str, Any] = info["config"]
        return config

    return asyncio.run(read())


def test_the_stream_of_a_service_is_planned_made_and_checked(there: Place) -> None:
    plan = there.shell("infra", "plan", APP)
    assert f"{STREAM}" in plan.out
    assert "missing: alarms of delayed jobs and schedules of the service" in plan.out
    assert acts(there.shell("infra", "apply", APP, "--json").json)[STREAM] == "created"
    check = there.shell("infra", "check", APP, "--json")
    assert (check.code, acts(check.json)[STREAM]) == (0, "keep")
    made = settings(there, STREAM)
    assert (made["retention"], made["allow_msg_schedules"]) == ("workqueue", True)


def test_the_streams_of_all_services_follow_without_their_code(there: Place) -> None:
    there.shell("infra", "apply", APP)
    asyncio.run(_connect_another_service(there))
    update_stream(there, STREAM, max_msgs_per_subject=1, allow_direct=False)
    found = acts(there.shell("infra", "plan", "--json").json)
    assert (found[STREAM], found["JOBS_ALARMS_lab"]) == ("update", "keep")
    assert there.shell("infra", "check").code == 1
    assert there.shell("infra", "apply", "--yes").code == 0
    made = settings(there, STREAM)
    assert made["allow_direct"] is True
    assert made["max_msgs_per_subject"] == 1, "what this library does not know stays"


async def _connect_another_service(there: Place) -> None:
    async with producer(there.url):
        pass
    async with probe(there.url) as raw:
        assert await services_with_alarms(raw.connection) == ("lab", "shop")
        # A stream of another system that has a similar name, and one with similar subjects.
        for name, subject in (("JOBS_ALARMS_", "x.y"), ("OTHER", "trellis.alarm")):
            await api.request(
                raw.connection, f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]}
            )
        assert await services_with_alarms(raw.connection) == ("lab", "shop")


def test_without_any_service_no_stream_for_alarms_is_made(there: Place) -> None:
    made = acts(there.shell("infra", "apply", "--json").json)
    assert not [name for name in made if name.startswith("JOBS_ALARMS")]


def test_an_alarms_stream_from_before_message_schedules_gets_them_when_an_operator_applies(
    there: Place,
) -> None:
    """As after an upgrade of the server from 2.11."""
    with start_version("2.11.11") as old:
        earlier = Place(old.url)
        assert there.shell("infra", "apply", APP).code == 0
        assert earlier.shell("infra", "apply", APP).code == 0
        without = settings(earlier, STREAM)
    assert "allow_msg_schedules" not in without
    asyncio.run(_replace(there, without))
    check = there.shell("infra", "check", APP, "--json")
    assert check.code == 0, "services run without it"
    assert "allow_msg_schedules is off" in str(check.json["changes"])
    assert acts(there.shell("infra", "apply", "--yes", "--json").json)[STREAM] == "updated"
    assert settings(there, STREAM)["allow_msg_schedules"] is True


async def _replace(there: Place, config: dict[str, Any]) -> None:
    async with probe(there.url) as raw:
        await api.request(raw.connection, f"STREAM.DELETE.{STREAM}")
        await api.request(raw.connection, f"STREAM.CREATE.{STREAM}", config)


def test_doctor_names_an_alarms_stream_that_is_not_up_to_date(there: Place) -> None:
    there.shell("infra", "apply", APP)
    update_stream(there, STREAM, allow_direct=False)
    told = there.shell("doctor", "--json").json
    [streams] = [each for each in told["sections"] if each["name"] == "streams"]
    assert f"{STREAM}: allow_direct should be True, is False" in str(streams)
