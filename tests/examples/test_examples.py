"""Every example runs as its page says, and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cli.command import running
from tests.docs.blocks import ROOT, blocks, shape

EXAMPLES: Final = ("webhooks", "tenant_sync", "reports")
# Notes that come quickly are merged: on a slow machine some are never seen.
PROGRESS: Final = re.compile(r"^sales: \d of 6\n", re.MULTILINE)
every_example = pytest.mark.parametrize("example", EXAMPLES)


def run(example: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    ended = subprocess.run(
        (sys.executable, "-m", f"examples.{example}"),
        cwd=ROOT,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def promised(example: str) -> str:
    [(typed, printed)] = blocks(f"examples/{example}/README.md")[0].commands()
    assert typed == f"python -m examples.{example}"
    return printed


def assert_alike(printed: str, promise: str) -> None:
    assert bool(PROGRESS.search(printed)) == bool(PROGRESS.search(promise))
    assert shape(PROGRESS.sub("", printed)) == shape(PROGRESS.sub("", promise))


@every_example
def test_an_example_prints_what_its_page_shows(example: str, tmp_path: Path) -> None:
    assert_alike(run(example, REPORTS_DIR=str(tmp_path)), promised(example))


@every_example
async def test_an_example_is_an_app_for_dev(example: str, tmp_path: Path) -> None:
    env = {"REPORTS_DIR": str(tmp_path / "reports")}
    app = ("--app", f"examples.{example}.app:service")
    with running(tmp_path, "dev", "--port", "0", *app, env=env) as dev:
        await dev.until_prints("runs jobs of")
        printed = run(example, NATS_URL=dev.printed.split()[2], **env)
        assert_alike(printed, promised(example))
        await dev.until_prints("completed")


def test_every_example_is_tested() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/__main__.py")}
    assert folders == set(EXAMPLES)
    index = (ROOT / "examples" / "README.md").read_text()
    assert all(f"({example}/README.md)" in index for example in EXAMPLES)
