"""Every example runs as a reader would run it, and prints what its text promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trellis_jobs.embedded import EmbeddedServer

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "quickstart": """\
synced 9 tickets
  created
  started
  completed
""",
    "retries_and_failures": """\
good    receipt 1  (tries: 1)
flaky   receipt 2  (tries: 2)
busy    receipt 3  (tries: 2)
stolen  failed: Fail: the card is blocked  (tries: 1)
empty   failed: OutOfMoney: 0.12 left  (tries: 1)
cursed  dead: TimeoutError: the bank is gone  (tries: 3)
""",
    "one_per_customer": """\
mailbox:acme begins with inbox
mailbox:acme is done with inbox
mailbox:acme begins with sent
mailbox:acme is done with sent
mailbox:acme begins with spam
mailbox:acme is done with spam
no room for drafts: queue-depth, 3 before it
""",
    "two_processes": """\
3 jobs are in the log
the worker did what there was, and ended with 0
ada: fdee430d
grace: e010fd1c
jean: 4ff17bc8
""",
}


def run(program: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    ended = subprocess.run(
        (sys.executable, program),
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


@pytest.mark.parametrize("example", PRINTED)
def test_an_example_prints_what_it_promises(example: str) -> None:
    assert run(str(EXAMPLES / f"{example}.py")) == PRINTED[example]


def test_a_long_job_is_followed_and_cancelled() -> None:
    said = run(str(EXAMPLES / "progress_and_cancel.py")).splitlines()
    assert said[:2] == ["watcher: pending, 0 of 12 months", "watcher: active, 0 of 12 months"]
    assert any(re.fullmatch(r"watcher: cancelled, \d+ of 12 months", line) for line in said)
    assert "handler: told to stop, because the job is over: True" in said
    assert said[-2:] == ["waiter: nobody reads it", "log: reading the orders of 2025"]


def test_every_example_is_tested() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"example_server"}
    assert programs == {*PRINTED, "progress_and_cancel"}


def test_an_example_uses_the_server_it_is_told(server: EmbeddedServer) -> None:
    said = run(str(EXAMPLES / "quickstart.py"), NATS_URL=server.url)
    assert said == PRINTED["quickstart"]


def test_the_program_in_the_readme_runs_as_it_is(tmp_path: Path) -> None:
    program, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 20
    (tmp_path / "readme.py").write_text(program)
    assert run(str(tmp_path / "readme.py")) == "9 tickets\n"
