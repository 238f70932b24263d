"""The benchmarks run and say what they promise to say; how fast they find us is not a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# The fixture starts some forty processes, one after the other.
pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Any:
    written = tmp_path_factory.mktemp("benchmarks") / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(written)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=170, stdout=subprocess.DEVNULL)
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


@pytest.mark.parametrize("keys", [1_000, 10, 1])
@pytest.mark.parametrize("step", ["create_many", "drain", "end_to_end"])
def test_each_number_of_keys_is_compared_with_the_unkeyed_queue(
    figures: Any, step: str, keys: int
) -> None:
    [compared] = [
        row for row in figures["keys"]["rates"] if (row["step"], row["keys"]) == (step, keys)
    ]
    assert compared["ratio"] > 0
    assert all(figure > 0 for side in ("ceiling", "ours") for figure in compared[side].values())


def test_an_unkeyed_job_costs_as_many_messages_beside_a_keyed_queue(figures: Any) -> None:
    [drained, *_] = [row for row in figures["keys"]["rates"] if row["step"] == "drain"]
    for direction in ("sent", "received"):
        alone = figures["steps"]["drain"]["ours"][direction]
        assert drained["ceiling"][direction] == pytest.approx(alone, abs=0.5)


def test_hand_overs_are_given_as_percentiles_for_one_and_two_processes(figures: Any) -> None:
    rows = {row["processes"]: row for row in figures["keys"]["hand_over"]}
    assert set(rows) == {1, 2}
    assert all(0 < row["p50"] <= row["p95"] <= row["longest"] for row in rows.values())


def test_refused_writes_are_counted_for_workers_and_for_who_creates(figures: Any) -> None:
    for row in figures["keys"]["conflicts"]:
        assert row["working"] >= 0
        assert row["creating"] >= 0
        assert row["jobs_per_second"] > 0


def test_the_projection_is_compared_with_a_bare_consumer_of_the_same_log(figures: Any) -> None:
    projection = figures["projection"]
    assert set(projection["rates"]) == {"bare", "projector", "rebuild"}
    assert all(figure > 0 for rate in projection["rates"].values() for figure in rate.values())
    assert projection["ratio"] > 0
    assert projection["seconds_for_a_million"] > 0


def test_each_question_to_the_projection_has_its_percentiles(figures: Any) -> None:
    asked = figures["projection"]["milliseconds"]
    assert {"get", "newest", "service", "since", "error text", "keys", "stats"} <= set(asked)
    assert all(0 < took["p50"] <= took["p99"] for took in asked.values())
