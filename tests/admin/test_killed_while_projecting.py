"""Killed with -9 at any moment, again and again: what is projected in the end is what is logged.

`make soak` runs this with many more jobs.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.admin.made_log import rows_of
from tests.admin.projection_lab import admin_process, log_lab, position_of
from tests.support.facts import until
from trellis_jobs.embedded import EmbeddedServer

JOBS: Final = int(os.environ.get("SOAK_JOBS", "4000"))
KILLS: Final = int(os.environ.get("SOAK_KILLS", "5"))
PORTION: Final = JOBS // KILLS // 10 * 10
TIMEOUT: Final = 600.0

pytestmark = pytest.mark.timeout(60 + JOBS / 20)


async def test_a_daemon_killed_again_and_again_repeats_and_skips_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    chance = random.Random(JOBS)  # noqa: S311 - the same at each run
    path = tmp_path / "jobs.sqlite"
    async with log_lab(server.url) as lab:
        for _ in range(KILLS):
            before = position_of(path)
            writing = asyncio.create_task(lab.write_jobs(PORTION))
            with admin_process(server.url, path) as admin:
                await until_beyond(path, before)
                await asyncio.sleep(chance.random() / 4)  # anywhere: there is no fact to wait for
                admin.kill()
            await writing
        end = await lab.end()
        with admin_process(server.url, path):
            await until_beyond(path, end - 1)
        rows = rows_of(path)
        assert len(rows["jobs_projection"]) == KILLS * PORTION
        assert len(rows["ignored_events"]) == KILLS * PORTION // 10
        assert rows == await lab.fresh_rows(tmp_path)


async def until_beyond(path: Path, position: int) -> None:
    await until(lambda: position_of(path) > position, "it goes on", deadline=TIMEOUT)
