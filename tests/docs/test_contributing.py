"""The recipes of CONTRIBUTING.md work as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

from tests.docs.blocks import ROOT

PAGE: Final = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_command_that_runs_one_test_finds_one() -> None:
    """It once named a word that no test had any more: every test was deselected."""
    [arguments] = re.findall(r"`\.venv/bin/pytest (\S+ -k \w+)`", PAGE)
    command = [sys.executable, "-m", "pytest", *arguments.split(), "--collect-only", "-q"]
    found = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "::test_" in found.stdout


def test_every_file_that_a_recipe_names_exists() -> None:
    named = set(re.findall(r"`((?:trellis_jobs|jobs_admin|docs|tests|contracts)/[\w./]+)`", PAGE))
    assert len(named) > 10
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []
