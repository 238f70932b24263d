"""How many of something, in words."""

from __future__ import annotations


def how_many(jobs: int, kind: str = "") -> str:
    """`kind` of jobs, as in `2 dead jobs`."""
    noun = "job" if jobs == 1 else "jobs"
    return " ".join(filter(None, (f"{jobs:,}", kind, noun)))
