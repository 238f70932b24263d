"""The benchmarks run and say what they promise to say; how fast they find us is not a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.capacity import Burden, capacity, days_kept
from benchmarks.scale.page import PAGE, PLACE, with_tables
from benchmarks.scale.sheets import Sheet
from trellis_jobs.contract.topology import KEYS, LOG, WORK
from trellis_jobs.model.states import JobState

# The fixture starts some forty processes, one after the other.
pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Any:
    written = tmp_path_factory.mktemp("benchmarks") / "figures.json"
    return _measured(written)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Of the pieces of `scale` the one that takes seconds."""
    written = tmp_path_factory.mktemp("scale") / "figures.json"
    return _measured(written, "scale", "--only", "storage")["storage"]["figures"]


def _measured(written: Path, *options: str) -> Any:
    command = [sys.executable, "-m", "benchmarks", *options, "--quick", "--json", str(written)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=500, stdout=subprocess.DEVNULL)
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


def test_a_drain_with_a_total_limit_is_compared_with_one_without(figures: Any) -> None:
    drains = figures["total_limit"]["drains"]
    assert set(drains) == {"one queue", "three queues in order", "three queues by weights"}
    for compared in drains.values():
        assert compared["ratio"] > 0
        assert all(figure > 0 for side in ("ceiling", "ours") for figure in compared[side].values())


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
    assert projection["drained_per_second"] > 0
    assert projection["drain_ratio"] > 0
    assert projection["seconds_for_a_million"] > 0


def test_each_question_to_the_projection_has_its_percentiles(figures: Any) -> None:
    asked = figures["projection"]["milliseconds"]
    assert {"get", "newest", "service", "since", "error text", "keys", "stats"} <= set(asked)
    assert {"key", "dead groups"} <= set(asked)
    requested = figures["projection"]["request_milliseconds"]
    assert {"Jobs.Get", "Jobs.List, newest", "Jobs.List, key", "Jobs.GroupDLQ"} <= set(requested)
    for told in (asked, requested):
        assert all(0 < took["p50"] <= took["p99"] for took in told.values())


def test_each_command_is_told_beside_what_it_takes_to_start(figures: Any) -> None:
    seconds = figures["commands"]["seconds"]
    assert {"--version", "jobs list", "dlq list --group", "top --json"} <= set(seconds)
    assert all(took > 0 for took in seconds.values())


def test_an_operation_is_compared_with_the_bare_appends_of_the_same_run(figures: Any) -> None:
    operations = figures["operations"]
    assert set(operations["operated_per_second"]) == {"bare", "operation"}
    assert operations["operation_ratio"] > 0


def test_a_job_that_is_over_weighs_more_in_the_log_and_nothing_in_the_work_queue(
    weights: Any,
) -> None:
    waiting, finished = weights["bytes"]["waiting"], weights["bytes"]["finished"]
    assert 0 < waiting[LOG] < finished[LOG]
    assert 0 <= finished[WORK] < waiting[WORK]


def test_a_key_weighs_something_after_its_job(weights: Any) -> None:
    assert weights["bytes"]["key"][KEYS] > 0


@pytest.mark.parametrize(
    ("each", "held"),
    [
        (Burden(memory=1_024, log=1, row=1), 3 * 2**20),  # 3 GB of 4
        (Burden(memory=1, log=100 * 1_024, row=1), 2**20),  # 100 GB
    ],
)
def test_a_server_holds_as_many_jobs_as_its_memory_and_its_disk(each: Burden, held: int) -> None:
    found = capacity(each)
    assert found["jobs_a_day"] * found["days_kept"] == pytest.approx(held)


def test_jobs_are_kept_for_the_days_of_the_default_retention() -> None:
    assert days_kept({JobState.COMPLETED: 0.5, JobState.FAILED: 0.3, JobState.DEAD: 0.2}) == (
        pytest.approx(0.5 * 7 + 0.3 * 30 + 0.2 * 90)
    )


def test_tables_take_their_places_on_the_page_and_leave_the_rest() -> None:
    places = (
        "a\n<!-- scale: one -->\nold\n<!-- end -->\nb\n<!-- scale: two -->\nold\n<!-- end -->\n"
    )
    filled = with_tables(places, [Sheet("one", "", ("x", "y"), (("1", "2"),))])
    assert "| x | y |\n| --- | --- |\n| 1 | 2 |" in filled
    assert with_tables(filled, []) == filled
    assert filled.endswith("b\n<!-- scale: two -->\nold\n<!-- end -->\n")


def test_the_page_about_capacity_has_no_place_without_a_table() -> None:
    for place in PLACE.finditer(PAGE.read_text(encoding="utf-8")):
        assert "| --- |" in place[0], place["name"]


def test_the_beats_of_all_workers_are_counted(tmp_path: Path) -> None:
    figures = _measured(tmp_path / "figures.json", "beats")
    assert figures["size"]["workers"] == 10
    assert figures["beats_per_second"] > 0
    assert figures["beat_p50_ms"] > 0


def test_the_jobs_of_killed_workers_start_elsewhere(tmp_path: Path) -> None:
    figures = _measured(tmp_path / "figures.json", "recovery")
    assert figures["causes"] == {"worker_death": 2}
    assert figures["longest_s"] > 0


def test_retries_are_measured_with_naks_at_once_and_in_bursts(tmp_path: Path) -> None:
    figures = _measured(tmp_path / "figures.json", "retries")
    assert [run["side"] for run in figures["runs"]] == ["at once", "in bursts"]
    for run in figures["runs"]:
        assert run["retries"]["count"] > 0
        assert run["retries"]["earliest"] >= 0
        assert run["takeovers"]["count"] > 0


def test_pages_of_the_console_are_measured_alone_and_left_open(tmp_path: Path) -> None:
    measured = _measured(tmp_path / "console.json", "console")
    assert {page["status"] for page in measured["pages"].values()} == {200}
    for figures in measured["open"].values():
        assert figures["with"] > 0
        assert figures["cost"] == pytest.approx(figures["with"] - figures["without"])
