"""Rates of the runtime under some condition, to be set beside those under another."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from types import ModuleType
from typing import Final

from benchmarks import ours
from benchmarks.measure import Drained, Measured
from benchmarks.scale.size import Size
from benchmarks.stage import Stage

Rates = dict[str, float]
STEPS: Final = {
    "create_many": "create many",
    "create_one_by_one": "create one by one",
    "drain": "drain",
}


def rates(stage: Stage, size: Size, side: ModuleType = ours) -> Rates:
    """Jobs a second, each step in a separate process."""
    many: Measured = stage.do(side.create_many, size.rated)
    one_by_one: Measured = stage.do(side.create_one_by_one, size.one_by_one)
    waiting = size.rated + size.one_by_one
    stage.until_queued(waiting)
    drained: Drained = stage.do(side.drain, waiting)
    done = (many, one_by_one, drained.measured)
    return {
        step: measured.jobs / measured.seconds for step, measured in zip(STEPS, done, strict=True)
    }


def medians(rounds: list[Rates]) -> Rates:
    """Of each step by itself."""
    return {step: statistics.median(one[step] for one in rounds) for step in rounds[0]}


def ratios(after: Mapping[str, float], before: Mapping[str, float]) -> Rates:
    return {step: after[step] / before[step] for step in before}


def compared(names: tuple[str, str], before: list[Rates], after: list[Rates]) -> dict[str, Rates]:
    """Two conditions by their names, and the second as a share of the first."""
    first, second = medians(before), medians(after)
    return {names[0]: first, names[1]: second, "ratio": ratios(second, first)}
