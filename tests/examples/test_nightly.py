"""The cron example: its script, run as cron runs it, on two hosts and again."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.nightly.app import service
from tests.docs.blocks import ROOT
from trellis_jobs.testing import ConnectService, drain


def yesterday() -> str:
    return f"{datetime.now(UTC) - timedelta(days=1):%F}"


async def create(url: str) -> str:
    """As cron does it: a bare environment, and sh."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "HOME": os.environ.get("HOME", "/"),
        "NATS_URL": url,
    }
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "examples/nightly/create.sh"),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


async def test_one_report_per_day_on_however_many_hosts(
    connected_service: ConnectService, jobs_server: str
) -> None:
    day = yesterday()
    printed = await asyncio.gather(create(jobs_server), create(jobs_server))
    if day != yesterday():
        return  # midnight passed meanwhile, so the reports may be of two days
    assert sorted(printed) == [
        f"created reports/nightly nightly-{day}\n",
        f"not created, already exists: reports/nightly nightly-{day}\n",
    ]
    async with connected_service(service):
        (done,) = (await drain(service)).in_state("completed")
    assert (done.id, done.result) == (f"nightly-{day}", f"report of {day}")
