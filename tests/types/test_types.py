"""Users see payload and result types without generated code: in mypy and in pyright, strictly."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = Path(sys.executable).parent

RIGHT = (HERE / "right_usage.py").read_text(encoding="utf-8")
WRONG = (HERE / "wrong_usage.py.txt").read_text(encoding="utf-8")
MISTAKES = {n for n, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# error")}

pytestmark = pytest.mark.timeout(300)  # a checker with nothing in its cache takes its time


def lines_reported_by_mypy(file: Path) -> dict[int, str]:
    """The lines with errors; the cache is that of `make types`, so a second run is quick."""
    settings = f"--config-file={ROOT / 'pyproject.toml'}"
    told = subprocess.run(
        [BIN / "mypy", "--strict", settings, "--no-error-summary", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not told.stderr, told.stderr
    found = re.findall(r":(\d+): error: (.*)", told.stdout)
    return {int(line): message for line, message in found}


def lines_reported_by_pyright(file: Path) -> dict[int, str]:
    settings = {
        "include": [file.name],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT)],
    }
    project = file.with_name("pyrightconfig.json")
    project.write_text(json.dumps(settings), encoding="utf-8")
    told = subprocess.run(
        [BIN / "basedpyright", "--pythonpath", sys.executable, "--outputjson", "-p", project],
        cwd=file.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(told.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, told.stdout
    return {
        each["range"]["start"]["line"] + 1: each["message"] for each in report["generalDiagnostics"]
    }


Check = Callable[[Path], dict[int, str]]
CHECKERS: list[Check] = [lines_reported_by_mypy, lines_reported_by_pyright]


@pytest.mark.parametrize("check", CHECKERS)
def test_right_usage_is_accepted_without_a_word(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "right_usage.py"
    file.write_text(RIGHT, encoding="utf-8")
    assert check(file) == {}


@pytest.mark.parametrize("check", CHECKERS)
def test_every_mistake_is_reported_and_nothing_else(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "wrong_usage.py"
    file.write_text(WRONG, encoding="utf-8")
    reported = check(file)
    assert {n: WRONG.splitlines()[n - 1] for n in MISTAKES - reported.keys()} == {}, "not reported"
    assert {n: reported[n] for n in reported.keys() - MISTAKES} == {}, "reported by mistake"
