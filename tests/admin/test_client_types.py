"""Operators' scripts are checked as strictly as ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.types.test_types import CHECKERS, Check

HERE = Path(__file__).parent
RIGHT = (HERE / "client_usage.py").read_text(encoding="utf-8")
WRONG = (HERE / "client_misuse.py.txt").read_text(encoding="utf-8")
MISTAKES = {n for n, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# error")}

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("check", CHECKERS)
def test_right_usage_of_the_client_is_accepted(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "client_usage.py"
    file.write_text(RIGHT, encoding="utf-8")
    assert check(file) == {}


@pytest.mark.parametrize("check", CHECKERS)
def test_mistakes_are_reported(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "client_misuse.py"
    file.write_text(WRONG, encoding="utf-8")
    assert check(file).keys() == MISTAKES
