"""A producer here, a worker in a process of its own, and handlers that are plain functions.

In production the worker is started by your init system or container: `trellis-jobs worker
two_processes:service`. The producer needs the declaration only, never the handlers.
"""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path

from example_server import a_server

from trellis_jobs import ActiveJob, Jobs, Service, job

HERE = Path(__file__).parent


class ArchiveJobs(Jobs, service="archive"):
    checksum = job(str, str, concurrency=8)


service = Service(ArchiveJobs)


@service.jobs.checksum.handle
def checksum(job: ActiveJob[str]) -> str:
    """No `async`: it runs in a thread, so that it may block."""
    return hashlib.sha256(job.payload.encode()).hexdigest()[:8]


async def main(url: str) -> None:
    async with service.connect(url, workers=False):  # produces only
        refs = await service.jobs.checksum.create_many(["ada", "grace", "jean"])
        print(f"{len(refs)} jobs are in the log")
        command = (
            Path(sys.executable).with_name("trellis-jobs"),
            "worker",
            "two_processes:service",
        )
        options = ("--nats", url, "--burst")
        code = await asyncio.to_thread(subprocess.call, (*command, *options), cwd=HERE)
        print(f"the worker did what there was, and ended with {code}")
        for ref in refs:
            print(f"{(await ref.get()).payload}: {await ref.wait(timeout=30)}")


if __name__ == "__main__":
    with a_server() as url:
        asyncio.run(main(url))
