"""The admin runtime may write nearly everywhere; who asks it chooses where the answer goes."""

from __future__ import annotations

from pathlib import Path

from tests.permissions.installation import Installation
from tests.permissions.test_holes import every_target, ground
from tests.permissions.test_operators_and_the_admin_runtime import admin
from trellis_jobs.jetstream.client.rpc import rpc_call
from trellis_jobs.model import subjects

HEALTH = subjects.rpc("Jobs.Health")


@every_target
async def test_an_operator_has_no_answer_written_where_only_the_admin_runtime_may(
    installation: Installation, tmp_path: Path, target: str
) -> None:
    async with (
        ground(installation) as at,
        admin(installation, tmp_path),
        installation.connection("reader") as reader,
    ):
        before = await at.all_streams()
        await reader.publish(HEALTH, b"{}", reply=target)
        assert b'"service"' in (await rpc_call(reader, HEALTH, b"{}")).data
        assert await at.all_streams() == before
