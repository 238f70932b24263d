"""The helpers keep payload and result types, in strict mypy and pyright."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.types.test_types import CHECKERS, Check

HERE = Path(__file__).parent
WRONG = (HERE / "wrong_usage.py.txt").read_text(encoding="utf-8")
MISTAKES = {n for n, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# error")}

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("check", CHECKERS)
def test_right_usage_is_accepted_without_a_word(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "right_usage.py"
    file.write_text((HERE / "right_usage.py").read_text(encoding="utf-8"), encoding="utf-8")
    assert check(file) == {}


@pytest.mark.parametrize("check", CHECKERS)
def test_every_mistake_is_reported_and_nothing_else(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "wrong_usage.py"
    file.write_text(WRONG, encoding="utf-8")
    reported = check(file)
    assert {n: WRONG.splitlines()[n - 1] for n in MISTAKES - reported.keys()} == {}, "not reported"
    assert {n: reported[n] for n in reported.keys() - MISTAKES} == {}, "reported by mistake"
