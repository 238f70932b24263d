"""Each rule of the worker protocol names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
PAGE: Final = ROOT / "docs/explain/worker-protocol.md"
ROW: Final = re.compile(r"^\| (W[^|]+) \|.*\| ([^|]+) \|$", re.MULTILINE)
CITED: Final = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rules(named: str) -> set[int]:
    """The numbers in `W10, W48` and `W58 to W65`."""
    found: set[int] = set()
    for part in named.split(","):
        numbers = [int(number) for number in re.findall(r"W(\d+)", part)]
        found.update(range(numbers[0], numbers[-1] + 1))
    return found


def test_every_row_names_a_test_that_exists() -> None:
    missing: list[str] = []
    for named, cell in ROW.findall(PAGE.read_text(encoding="utf-8")):
        cited = CITED.findall(cell)
        if not cited:
            missing.append(f"{named} names no test")
        for path, test in cited:
            file = ROOT / path
            if not file.exists() or f"def {test}(" not in file.read_text(encoding="utf-8"):
                missing.append(f"{named}: {path}::{test}")
    assert missing == []


def test_every_rule_is_in_the_table_or_excused() -> None:
    text = PAGE.read_text(encoding="utf-8")
    in_table = {rule for named, _ in ROW.findall(text) for rule in rules(named)}
    (excused,) = re.findall(r"^(W32, .*) are permissions or consequences", text, re.MULTILINE)
    excused_rules = {int(number) for number in re.findall(r"W(\d+)", excused)}
    assert in_table | excused_rules == set(range(1, 88))
