"""How much each piece does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """In jobs, unless the name says otherwise.

    `few` and `many` are in the log when rates are compared, `stored` are weighed, `steady` go
    through one worker whose memory is looked at, `sleeping` wait in their handlers, `shared` are
    done by one process and then by two, `due` are purged while `beside` are worked on.
    """

    rounds: int
    rated: int
    one_by_one: int
    few: int
    many: int
    stored: int
    keys: int
    steady: int
    sleeping: int
    shared: int
    consumers: int
    due: int
    beside: int


USUAL: Final = Size(
    rounds=3,
    rated=10_000,
    one_by_one=1_000,
    few=10_000,
    many=1_000_000,
    stored=100_000,
    keys=100_000,
    steady=100_000,
    sleeping=2_000,
    shared=10_000,
    consumers=1_000,
    due=1_000,
    beside=60_000,
)
QUICK: Final = Size(
    rounds=1,
    rated=200,
    one_by_one=20,
    few=100,
    many=1_000,
    stored=200,
    keys=50,
    steady=300,
    sleeping=200,
    shared=400,
    consumers=20,
    due=50,
    beside=3_000,
)
