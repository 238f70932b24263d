"""A rule that does not hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """`history` is that of the jobs it is about."""

    rule: str
    what: str
    history: tuple[str, ...] = ()
