"""Watches a process pass crash points, and kills it at one of them, as kill -9 does.

By the interpreter's own tracing: the code that is watched is not changed, and knows nothing of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tests.crash_points.points import CodeKey, Side, Site

Passage = tuple[str, Side]
# As sys.settrace has it: what is called for the next event of the frame.
_Trace = Callable[[FrameType, str, Any], Any]


@dataclass(frozen=True, slots=True)
class Trap:
    """`nth`: how often the point must be passed on this side."""

    point: str
    side: Side
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.side} {self.point}" + (f" ({self.nth}.)" if self.nth > 1 else "")


class Tripwire:
    """`passed` counts; once the trap's count is reached, the process is no more."""

    def __init__(self, sites: Iterable[Site], trap: Trap | None = None) -> None:
        self.passed: Counter[Passage] = Counter()
        self._trap = trap
        self._steps: dict[CodeKey, dict[int, Passage]] = {}
        for site in sites:
            if trap is None or site.point == trap.point:
                steps = self._steps.setdefault(site.code, {})
                steps[site.before] = (site.point, Side.BEFORE)
                steps[site.after] = (site.point, Side.AFTER)

    def set(self) -> None:
        """In this thread, and in those that begin from now on."""
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> _Trace | None:
        code = frame.f_code
        steps = self._steps.get((code.co_filename, code.co_firstlineno, code.co_name))
        if steps is None:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True

        def step(frame: FrameType, event: str, _arg: Any) -> _Trace:
            if event == "opcode" and frame.f_lasti in steps:
                self._pass(steps[frame.f_lasti])
            return step

        return step

    def _pass(self, passage: Passage) -> None:
        self.passed[passage] += 1
        trap = self._trap
        if trap is None or passage != (trap.point, trap.side):
            return
        if self.passed[passage] >= trap.nth:
            os.kill(os.getpid(), signal.SIGKILL)
