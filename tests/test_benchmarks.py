"""The benchmarks run and say what they promise to say; how fast they find us is not a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Any:
    written = tmp_path_factory.mktemp("benchmarks") / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(written)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=50, stdout=subprocess.DEVNULL)
    return json.loads(written.read_text())


@pytest.mark.parametrize("step", ["create_many", "create_one_by_one", "drain", "end_to_end"])
def test_each_step_compares_ours_with_the_ceiling(figures: Any, step: str) -> None:
    compared = figures["steps"][step]
    for side in ("ceiling", "ours"):
        assert set(compared[side]) == {"jobs_per_second", "cpu_microseconds", "sent", "received"}
        assert all(figure > 0 for figure in compared[side].values())
    assert compared["ratio"] > 0


@pytest.mark.parametrize("until", ["pull", "handler"])
def test_pickup_is_given_as_percentiles_of_both_sides(figures: Any, until: str) -> None:
    waits = figures["pickup"][until]
    assert {part: set(waits[part]) for part in waits} == {
        part: {"p50", "p99"} for part in ("ceiling", "ours", "ratio")
    }


def test_a_job_costs_the_runtime_as_many_messages_as_the_bare_pump(figures: Any) -> None:
    drained = figures["steps"]["drain"]
    for direction in ("sent", "received"):
        assert drained["ours"][direction] == pytest.approx(drained["ceiling"][direction], abs=0.5)
