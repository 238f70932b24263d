"""The sync client in programs that fork, end, or are interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.sync.helpdesk_jobs import helpdesk

ROOT: Final = Path(__file__).parents[2]
# Newer Pythons warn of every fork of a process with threads.
WARNINGS: Final = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")


def run(program: str, url: str) -> list[str]:
    ended = subprocess.run(
        (sys.executable, *WARNINGS, "-m", "tests.sync.helpdesk_jobs", program, url),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_a_separate_connection(jobs_server: str) -> None:
    by_child, child, by_parent = run("fork", jobs_server)
    assert child == "child 0"
    with helpdesk().connect_sync(jobs_server) as client:
        shout = client.queue(helpdesk().jobs.shout)
        payloads = [shout.ref(line.split()[1]).get().payload for line in (by_child, by_parent)]
    assert payloads == ["child", "parent after"]


def test_a_program_ends_with_its_client_open(jobs_server: str) -> None:
    (created,) = run("end", jobs_server)
    assert created.startswith("created ")


def test_ctrl_c_ends_the_waiting_and_not_the_job(jobs_server: str) -> None:
    program = subprocess.Popen(
        (sys.executable, "-m", "tests.sync.helpdesk_jobs", "interrupted", jobs_server),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("created ")
        program.send_signal(signal.SIGINT)
        printed, _ = program.communicate(timeout=30)
    finally:
        program.kill()
        program.wait()
    assert printed == "interrupted pending\n"
    assert program.returncode == 0
