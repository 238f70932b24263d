"""The published contract is what the admin runtime answers to, no more and no less."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from jobs_admin.api.contract import RPCS, Capability, contract
from tests.admin.admin_lab import AdminLab
from tests.support.example_service import Task
from tools.rpc_contract import FILE, text


def test_the_file_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "python -m tools.rpc_contract"


async def test_the_daemon_knows_these_methods_and_no_others(lab: AdminLab) -> None:
    told = await lab.stranger.refused("Jobs.Nosuch", b"{}")
    known = told["issues"][0]["message"].removeprefix("the methods are ").split(", ")
    assert sorted(known) == sorted(RPCS)


@pytest.mark.parametrize("method", RPCS)
async def test_every_method_takes_the_input_that_the_contract_says(
    lab: AdminLab, method: str
) -> None:
    """The names of all its fields are known: only their values are wrong."""
    fields = contract()["schemas"][RPCS[method].input.__name__].get("properties", {})
    wrong = orjson.dumps({name: [[]] for name in fields})
    if not fields:
        assert (await lab.stranger.send(method, wrong)).headers == {}
        return
    told = await lab.stranger.refused(method, wrong)
    assert told["type"] == "ValidationError"
    assert "not permitted" not in told["message"]


def test_what_changes_something_needs_the_right_to() -> None:
    changing = {name for name, rpc in RPCS.items() if rpc.needs is Capability.MUTATE}
    assert changing == {
        "Jobs.Cancel",
        "Jobs.Retry",
        "Jobs.ReplayDLQ",
        "Jobs.DismissDLQ",
        "Jobs.Reschedule",
        "Jobs.RunNow",
        "Jobs.ReleaseKey",
        "Jobs.PauseQueue",
        "Jobs.ResumeQueue",
        "Jobs.PutSchedule",
        "Jobs.PauseSchedule",
        "Jobs.ResumeSchedule",
        "Jobs.TriggerSchedule",
        "Jobs.DeleteSchedule",
        "Jobs.Operate",
        "Jobs.StopOperation",
    }
    directing = {name for name, rpc in RPCS.items() if rpc.needs is Capability.WORKERS}
    assert directing == {"Jobs.DirectWorkers"}
    creating = {name for name, rpc in RPCS.items() if rpc.needs is Capability.CREATE}
    assert creating == {"Jobs.Create"}
    assert all(RPCS[name].is_change for name in changing | directing | creating)


async def test_errors_have_the_fields_that_the_contract_says(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    refusals = await asyncio.gather(
        lab.stranger.ask("Jobs.Get", {"id": "01NOSUCH"}),
        lab.stranger.ask("Jobs.Get", {"id": 1}),
        lab.stranger.ask("Jobs.Retry", {"id": ref.id}),
        lab.stranger.ask("Jobs.Nosuch", {}),
        lab.stranger.ask("Jobs.GetKey", {"service": "lab", "type": "work", "key": "unknown"}),
    )
    schemas: dict[str, Any] = contract()["errors"]
    for told in refusals:
        schema = schemas[told["type"]]
        assert set(schema["required"]) <= set(told)
        assert set(told) <= set(schema["properties"])
