"""Operators with the capability create jobs in every queue, with the printed rights."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jobs_admin.api.views.creation import CreationOutcome, WouldBe
from tests.permissions.installation import Installation
from tests.permissions.services import staff
from tests.permissions.test_operators_and_the_admin_runtime import admin, operator
from trellis_jobs.errors import NotPermitted
from trellis_jobs.model.states import JobState

HALL = {"room": "hall"}


async def test_an_operator_creates_jobs_of_every_service_through_the_admin_runtime(
    installation: Installation, tmp_path: Path
) -> None:
    """Also with a key, in another bucket, and for later: the admin runtime may do all of it."""
    refused = installation.violations("maker")
    room = {"room": f"porch-{installation.shape}"}
    async with (
        admin(installation, tmp_path),
        operator(installation, "maker") as maker,
    ):
        creation = maker.creation
        assert (await creation.contract("house", "keyed")).key is not None
        assert (await creation.preview("house", "keyed", room)).would is WouldBe.WAIT
        keyed = await creation.create("house", "keyed", room, reason="by hand")
        assert (keyed.outcome, keyed.key) == (CreationOutcome.ACCEPTED, f"room:{room['room']}")
        other = await creation.create("orchard", "keyed", room)
        assert other.outcome is CreationOutcome.ACCEPTED
        delayed = await creation.create("garden", "work", HALL, delay_ms=3_600_000)
        assert delayed.id is not None
        job = await maker.get(delayed.id)
        assert (job.state, job.created_by) == (JobState.SCHEDULED, "maker")
        async with staff(installation.access("house"), "keyed") as at_work:
            assert keyed.id is not None
            assert await at_work.jobs.keyed.ref(keyed.id).wait(timeout=20) == "try 1"
    assert installation.violations("maker") == refused


async def test_who_may_not_create_is_refused_by_the_server(
    installation: Installation, tmp_path: Path
) -> None:
    async with admin(installation, tmp_path):
        for who in ("reader", "changer", "both"):
            async with operator(installation, who) as other:
                with pytest.raises(NotPermitted):
                    await other.creation.create("house", "unattended", HALL)
        create = ("jobs", "create", "house/unattended", "{}")
        ended = await asyncio.to_thread(installation.command, "reader", *create)
        assert (ended.code, ended.out) == (1, "")
        assert "may not publish to rpc.v1.Jobs.Create" in ended.err


async def test_a_service_creates_its_own_jobs_with_the_command_and_no_admin_runtime(
    installation: Installation,
) -> None:
    create = ("jobs", "create", "--inbox-prefix", "_INBOX_house")
    own = ("house/unattended", "{}", "--json", "--by", "ann")
    ended = await asyncio.to_thread(installation.command, "house", *create, *own)
    assert ended.code == 0, ended.err
    assert ended.json["outcome"] == "accepted"
    other = await asyncio.to_thread(installation.command, "house", *create, "garden/work", "{}")
    assert other.code == 1
    assert "may not publish" in other.err
