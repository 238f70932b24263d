"""Format counts, rates and sizes. Durations are formatted in `model.durations`."""

from __future__ import annotations

from typing import Final

_FINE: Final = 10
_KILO: Final = 1000


def count(number: int) -> str:
    return f"{number:,}"


def how_many(jobs: int, kind: str = "") -> str:
    """A count of jobs with an optional adjective, as in `2 dead jobs`."""
    noun = "job" if jobs == 1 else "jobs"
    return " ".join(filter(None, (count(jobs), kind, noun)))


def rate(number: float) -> str:
    """With one decimal place if it is small."""
    return f"{number:,.{1 if number < _FINE else 0}f}".removesuffix(".0")


def size(number: int) -> str:
    """A number of bytes in the largest unit that fits: `812 bytes`, `2.5 kB`, `1 MB`."""
    value, unit = float(number), "bytes"
    for larger in ("kB", "MB", "GB"):
        if value < _KILO:
            break
        value, unit = value / _KILO, larger
    return f"{rate(value)} {unit}"
