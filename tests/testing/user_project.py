"""A user's project in a separate folder, and the output of pytest in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SETTINGS: Final = """\
[tool.pytest.ini_options]
asyncio_mode = "auto"
"""
_COUNTS: Final = re.compile(r"(\d+) (passed|failed|error)")


@dataclass(frozen=True)
class PytestResult:
    counts: dict[str, int]
    text: str


def run_pytest(folder: Path, *options: str) -> PytestResult:
    """Temporary files of the project, the servers' folders among them, are in its `tmp`."""
    temporary = folder / "tmp"
    temporary.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options),
        cwd=folder,
        env={**kept, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    last = ended.stdout.strip().splitlines()[-1]
    counts = {word: int(count) for count, word in _COUNTS.findall(last)}
    return PytestResult(counts, ended.stdout + ended.stderr)
