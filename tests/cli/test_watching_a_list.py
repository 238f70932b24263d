"""`jobs list --watch`: on a terminal, while the admin runtime is away, rebuilds, or never was."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.admin.admin_lab import daemon_at
from tests.admin.test_answering_while_rebuilding import held_up, jobs_and_an_old_file
from tests.cli.shell import at_terminal
from tests.cli.terminal import on_a_terminal
from tests.support.facts import until
from trellis_jobs.embedded import EmbeddedServer

WATCH = ("jobs", "list", "--watch")


def test_without_an_admin_runtime_from_the_start_it_ends_with_4(server: EmbeddedServer) -> None:
    ended = at_terminal(*WATCH, "--nats", server.url)
    assert ended.code == 4
    assert "trellis-jobs admin serve" in ended.plain


async def test_it_goes_on_while_the_projection_is_rebuilt(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with jobs_and_an_old_file(server.url, path):
        with held_up(path) as old:
            async with daemon_at(server.url, path):
                with on_a_terminal(*WATCH, "--nats", server.url) as (watch, screen):
                    await until(lambda: "is being rebuilt" in screen.plain_text, "it is said")
                    old.execute("ROLLBACK")
                    await until(lambda: "20 of 20 jobs" in screen.plain_text, "they are shown")
                    os.kill(watch.pid, signal.SIGINT)
                    await until(lambda: watch.poll() is not None, "it ends")
                    assert watch.returncode == 0
