"""A handler that blocks the event loop is named in the log, in the metrics and in heartbeats."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.presence.test_heartbeats import heartbeat
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import probe, producer
from tests.support.worker_process import worker_process
from trellis_jobs.embedded import EmbeddedServer


async def test_a_block_is_logged_once_with_its_job_its_place_and_its_whole_length(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The handler blocks for three seconds, at a line of tests/support/example_service.py."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path, "work") as blocked:
            await blocked.until_ready()
            ref = await jobs.work.create(Task(do="block", seconds=3))
            await ref.wait(timeout=20)
            by = f"job {ref.id} of work (handler _main.<locals>.record)"
            ended = re.compile(rf"the event loop was blocked for (\S+) s by {re.escape(by)}")
            match = await until(lambda: ended.search(blocked.output), "the end is logged")
            assert float(match[1]) > 1
            begun = re.findall(r"the event loop has been blocked for .*", blocked.output)
            assert len(begun) == 1
            assert f"by {by}, at " in begun[0]
            assert re.search(r"tests/support/example_service\.py:\d+ in perform$", begun[0])
            # The traceback below it starts at the handler, without the frames that called it.
            below = blocked.output.partition(begun[0])[2].splitlines()
            assert "in record" in below[1]
            assert any("in perform" in line for line in below[2:8])

            async def blocked_for() -> int | None:
                beat = json.loads((await heartbeat(raw)).data)
                return int(beat["loopBlockedMs"]) if "loopBlockedMs" in beat else None

            assert await until(blocked_for, "a heartbeat reports the block") > 1_000
