"""Every state that can be reached, the steps that lead there, and whether an end can be reached.

States are hashed and visited once, nearest first, so the trace to a violation is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class Violation(AssertionError):
    """A rule was broken, or nothing leads to an end; `trace` are the steps that led there."""

    def __init__(self, what: str, trace: list[str]) -> None:
        super().__init__("\n  ".join([what, *trace]))
        self.what = what
        self.trace = trace


@dataclass
class Exploration(Generic[S]):
    """`steps` yields what may happen next, whether it is a fault, and the state it leads to."""

    steps: Callable[[S], Iterable[tuple[str, bool, S]]]
    came_from: dict[S, tuple[S, str] | None] = field(default_factory=dict)
    before: dict[S, list[S]] = field(default_factory=dict)
    transitions: int = 0

    def run(self, start: S) -> Exploration[S]:
        self.came_from[start] = None
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            try:
                for step, is_fault, after in self.steps(state):
                    self.transitions += 1
                    if after not in self.came_from:
                        self.came_from[after] = (state, step)
                        waiting.append(after)
                    if not is_fault:
                        self.before.setdefault(after, []).append(state)
            except AssertionError as error:
                raise Violation(str(error), self.trace(state)) from error
        return self

    @property
    def states(self) -> Iterable[S]:
        return self.came_from

    def require_an_end(self, is_end: Callable[[S], bool]) -> None:
        """From every state the goal can be reached without another fault.

        For if an end can be reached from every state, no set of states without one can be stayed
        in for ever by a run in which everything that may happen again and again does happen.
        """
        reaching = {state for state in self.came_from if is_end(state)}
        waiting = deque(reaching)
        while waiting:
            for earlier in self.before.get(waiting.popleft(), ()):
                if earlier not in reaching:
                    reaching.add(earlier)
                    waiting.append(earlier)
        for state in self.came_from:
            if state not in reaching:
                raise Violation("nothing leads to an end any more", self.trace(state))

    def trace(self, state: S) -> list[str]:
        steps: list[str] = []
        while (origin := self.came_from[state]) is not None:
            state, step = origin
            steps.append(step)
        return steps[::-1]
