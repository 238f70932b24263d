"""The time limits of a job's tries ⇄ JSON: the fields `timeoutMs` and `visibilityMs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.try_limits import TryLimits
from trellis_jobs.wire.fields import MILLISECOND, milliseconds

if TYPE_CHECKING:
    from datetime import timedelta

FIELDS: Final = frozenset({"timeoutMs", "visibilityMs"})


def add_to(body: dict[str, Any], limits: TryLimits) -> None:
    if limits.timeout is not None:
        body["timeoutMs"] = limits.timeout // MILLISECOND
    if limits.visibility is not None:
        body["visibilityMs"] = limits.visibility // MILLISECOND


def from_json(body: dict[str, Any]) -> TryLimits | None:
    if FIELDS.isdisjoint(body):
        return None
    return TryLimits(_limit(body, "timeoutMs"), _limit(body, "visibilityMs"))


def _limit(body: dict[str, Any], name: str) -> timedelta | None:
    return milliseconds(body, name, minimum=1) if name in body else None
