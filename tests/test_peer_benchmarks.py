"""What the comparison with peers makes of its figures; `make bench-peers` measures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.peers import cells, commands
from benchmarks.peers.cells import CELLS, Cell, is_measured, jobs_of
from benchmarks.peers.chart import chart
from benchmarks.peers.contestants import CONTESTANTS, OURS, Contestant
from benchmarks.peers.figures import Figure, Figures, Measurement, Results
from benchmarks.peers.installing import requirements_of
from benchmarks.peers.moments import Column, Moments
from benchmarks.peers.processes import running
from benchmarks.peers.report import report
from benchmarks.peers.rounds import Turn, plan, run
from benchmarks.peers.stage import ENVIRONMENTS
from benchmarks.peers.summary import Summary
from benchmarks.peers.targets import Verdict, judge
from benchmarks.peers.trial import Broker, Mode, Trial
from benchmarks.peers.usage import family
from tests.cli.processes import is_alive

ADAPTERS = Path(commands.__file__).parent / "adapters"
BY_NAME = {one.name: one for one in CONTESTANTS}
RATE = Figure.JOBS_PER_SECOND


def measured(
    contestant: str, cell: Cell, figures: Figures, *, round_: int = 0, failed: str | None = None
) -> Measurement:
    return Measurement(
        round=round_,
        contestant=contestant,
        cell=cell.name,
        jobs=10,
        figures=figures,
        failed=failed,
    )


def verdict_on(name: str, measurements: list[Measurement]) -> Verdict:
    [found] = [one for one in judge(Summary(measurements)) if one.target.name == name]
    return found


def trial(
    tool: str = "arq", *, seconds: float = 0.0, processes: int = 1, concurrency: int = 100
) -> Trial:
    return Trial(
        tool=tool,
        mode=Mode.FULL,
        jobs=10,
        seconds=seconds,
        processes=processes,
        concurrency=concurrency,
        moments="/tmp/moments",  # noqa: S108 (a name that is never opened)
        addresses={broker: f"{broker}://" for broker in Broker},
    )


class TestSummary:
    def test_is_the_median_of_the_rounds_with_their_extremes(self) -> None:
        rounds = [
            measured("arq", cells.DRAIN_FULL, {RATE: rate}, round_=n)
            for n, rate in enumerate((100.0, 400.0, 200.0))
        ]
        spread = Summary(rounds).of("arq", cells.DRAIN_FULL, RATE)
        assert spread is not None
        assert (spread.median, spread.least, spread.most) == (200.0, 100.0, 400.0)
        assert spread.share == 0.75

    def test_a_figure_too_small_to_be_counted_has_no_share(self) -> None:
        summary = Summary([measured("arq", cells.DRAIN_FULL, {Figure.WORKER_CPU: 0.0})])
        spread = summary.of("arq", cells.DRAIN_FULL, Figure.WORKER_CPU)
        assert spread is not None
        assert spread.share == 0.0

    def test_counts_no_failed_measurement(self) -> None:
        failed = measured("arq", cells.DRAIN_FULL, {}, failed="no server")
        assert Summary([failed]).contestants == []

    def test_ours_has_one_mode_which_stands_in_both_columns(self) -> None:
        summary = Summary([measured(OURS, cells.DRAIN_FULL, {RATE: 9.0})])
        assert summary.of(OURS, cells.DRAIN_LEAN, RATE) == summary.of(OURS, cells.DRAIN_FULL, RATE)

    def test_of_a_peer_the_modes_are_told_apart(self) -> None:
        summary = Summary([measured("arq", cells.DRAIN_FULL, {RATE: 9.0})])
        assert summary.of("arq", cells.DRAIN_LEAN, RATE) is None


class TestTargets:
    def test_a_rate_is_compared_with_the_fastest_peer(self) -> None:
        rates = {OURS: 2_900.0, "arq": 700.0, "saq": 1_000.0}
        verdict = verdict_on(
            "drain, peers full",
            [measured(name, cells.DRAIN_FULL, {RATE: rate}) for name, rate in rates.items()],
        )
        assert (verdict.rival, verdict.ratio) == ("saq", 2.9)
        assert not verdict.is_reached

    def test_a_time_is_compared_with_the_shortest(self) -> None:
        times = {OURS: 2.0, "arq": 480.0, "saq": 5.0}
        verdict = verdict_on(
            "pickup p99, ms",
            [
                measured(name, cells.PICKUP, {Figure.PICKUP_P99: time})
                for name, time in times.items()
            ],
        )
        assert (verdict.rival, verdict.ratio) == ("saq", 2.5)
        assert verdict.is_reached

    @pytest.mark.parametrize(("times", "is_reached"), [(1.14, True), (1.16, False)])
    def test_jobs_that_wait_are_compared_with_the_ideal(
        self, times: float, is_reached: bool
    ) -> None:
        ours = measured(OURS, cells.WAITING, {Figure.TIMES_IDEAL: times})
        assert verdict_on("100 ms jobs, ideal = 1", [ours]).is_reached is is_reached

    def test_without_a_peer_there_is_no_verdict(self) -> None:
        assert judge(Summary([measured(OURS, cells.MANY, {RATE: 1.0})])) == []


class TestReport:
    def test_says_who_reached_what_and_who_has_no_figure(self, tmp_path: Path) -> None:
        results = Results(tmp_path / "peers.json", {"Python": "3.11"})
        results.add(measured(OURS, cells.MANY, {RATE: 4_000.0}))
        results.add(measured("arq", cells.MANY, {RATE: 1_000.0}))
        results.add(measured("saq", cells.MANY, {}, failed="no server"))
        printed = report(results)
        assert "| create many | 4,000 | 1,000 | arq | 4.00 | 3.00 | reached |" in printed
        assert "saq, many:lean:1: no figure: no server" in printed
        assert "| **trellis-jobs** | – | 4,000 |" in printed

    def test_warns_of_a_machine_that_was_not_quiet(self, tmp_path: Path) -> None:
        results = Results(tmp_path / "peers.json", {})
        results.add(measured("arq", cells.DRAIN_FULL, {RATE: 1.0, Figure.OTHERS_CORES: 0.7}))
        assert "0.7 cores busy" in report(results)


class TestChart:
    def test_draws_a_bar_for_each_in_proportion_and_the_best_first(self) -> None:
        summary = Summary(
            [
                measured("arq", cells.DRAIN_FULL, {RATE: 500.0}),
                measured(OURS, cells.DRAIN_FULL, {RATE: 2_000.0}),
            ]
        )
        svg = chart(summary)
        ElementTree.fromstring(svg)  # noqa: S314 (our own)
        bars = re.findall(r'class="(ours|peer)" x="\d+" y="\d+" width="([\d.]+)"', svg)
        assert [kind for kind, _ in bars] == ["ours", "peer"]
        assert float(bars[0][1]) == 4 * float(bars[1][1])

    def test_a_time_beyond_measure_is_cut_and_still_told(self) -> None:
        times = {OURS: 2.0, "saq": 4.0, "arq": 480.0}
        svg = chart(
            Summary(
                [
                    measured(name, cells.PICKUP, {Figure.PICKUP_P99: time})
                    for name, time in times.items()
                ]
            )
        )
        widths = re.findall(r'class="(?:ours|peer)" x="\d+" y="\d+" width="([\d.]+)"', svg)
        assert widths[1] == widths[2]
        assert ">480.0<" in svg


class TestResults:
    def test_are_read_back_as_they_were_written(self, tmp_path: Path) -> None:
        written = Results(tmp_path / "peers.json", {"Python": "3.11"})
        written.add(measured("arq", cells.MANY, {RATE: 1.0}))
        read = Results.read(tmp_path / "peers.json")
        assert (read.about, read.measurements) == (written.about, written.measurements)

    def test_a_failed_measurement_is_taken_again_and_then_replaced(self, tmp_path: Path) -> None:
        results = Results(tmp_path / "peers.json", {})
        results.add(measured("arq", cells.MANY, {}, failed="no server"))
        assert not results.has(0, "arq", cells.MANY.name)
        results.add(measured("arq", cells.MANY, {RATE: 1.0}))
        assert results.has(0, "arq", cells.MANY.name)
        assert len(results.measurements) == 1


class TestPlan:
    def test_everybody_has_a_turn_at_a_cell_before_the_next_cell(self) -> None:
        turns = list(plan(2, CONTESTANTS, CELLS))
        order = [(turn.round, turn.cell) for turn in turns]
        assert list(dict.fromkeys(order)) == [(n, cell) for n in range(2) for cell in CELLS]
        assert order == sorted(order, key=lambda one: (one[0], CELLS.index(one[1])))

    def test_another_one_is_first_in_the_next_round(self) -> None:
        drains = list(plan(2, CONTESTANTS, [cells.DRAIN_FULL]))
        [first, second] = [next(turn for turn in drains if turn.round == n) for n in range(2)]
        assert first.contestant != second.contestant

    def test_ours_is_measured_in_its_one_mode_only(self) -> None:
        ours = [cell for cell in CELLS if is_measured(BY_NAME[OURS], cell)]
        assert cells.DRAIN_LEAN not in ours
        assert cells.DRAIN_FULL in ours

    def test_a_limit_of_jobs_is_kept(self) -> None:
        assert jobs_of(BY_NAME[OURS], cells.MANY, at_most=60) == 60
        assert jobs_of(BY_NAME["rq"], cells.DRAIN_FULL, at_most=None) < 2_000


def test_a_tool_that_is_not_installed_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    missing = replace(BY_NAME["arq"], environment="not-installed", brokers=())
    results, printed = Results(tmp_path / "peers.json", {}), list[str]()
    turns = [Turn(0, cell, missing) for cell in (cells.MANY, cells.DRAIN_FULL)]
    run(turns, results, at_most=1, say=printed.append)
    assert [one.failed for one in results.measurements] == [
        f"{ENVIRONMENTS}/not-installed/bin/python is not installed"
    ] * 2
    assert len(printed) == 2


def test_a_process_is_ended_with_its_descendants(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 600 >&- & echo $!; wait"]
    with running(command, log=tmp_path / "log", talks=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert child in family([process.pid])
    assert not is_alive(child)


class TestContestants:
    @pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda one: one.name)
    def test_has_an_adapter_and_exact_requirements(self, contestant: Contestant) -> None:
        if contestant.environment is None:
            return
        assert (ADAPTERS / f"{contestant.adapter.rpartition('.')[2]}.py").exists()
        pins = requirements_of(contestant.environment).read_text().splitlines()
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)

    @pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda one: one.name)
    def test_workers_are_programs_of_its_environment(self, contestant: Contestant) -> None:
        for command in contestant.commands(trial(contestant.name, processes=2), Path("/env")):
            assert command[0].startswith("/env/")

    def test_jobs_that_wait_get_the_concurrency_they_need(self) -> None:
        [command] = commands.dramatiq(trial(seconds=0.1, concurrency=200), Path("/env"))
        assert command[-1] == "200"


def test_a_trial_survives_its_way_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = trial()
    for name, value in sent.to_environment().items():
        monkeypatch.setenv(name, value)
    assert Trial.from_environment() == sent


def test_moments_are_seen_by_all_who_share_the_file(tmp_path: Path) -> None:
    written = Moments.create(tmp_path / "moments", jobs=2)
    read = Moments(tmp_path / "moments", jobs=2)
    written.ask(0, 5)
    written.enter(0, 7)
    written.enter(0, 8)
    written.leave(2, 9)
    assert read.of(Column.ASKED) == [5, 0]
    assert read.of(Column.ENTERED) == [8, 0]
    assert read.of(Column.ENTRIES) == [2, 0]
    assert read.of_warm_up(Column.LEFT) == 9
    assert read.count(Column.LEFT) == 0
