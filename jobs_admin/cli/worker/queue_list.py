"""The queues of `trellis-jobs worker --queues`: in order, `a,b`, or with weights, `a=6,b=3`."""

from __future__ import annotations

import typer


def parse_queues(text: str) -> list[str] | dict[str, int]:
    """Raises BadParameter unless all queues have a weight, or none has one."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not any("=" in item for item in items):
        return items
    weights: dict[str, int] = {}
    for item in items:
        name, equals, weight = (part.strip() for part in item.partition("="))
        if not equals:
            raise _bad(f"queue {name!r} has no weight: give one to every queue, or to none")
        if name in weights:
            raise _bad(f"queue {name!r} is named twice")
        if not (weight.isascii() and weight.isdigit() and int(weight) > 0):
            raise _bad(
                f"the weight of queue {name!r} must be a whole number of at least 1, is {weight!r}"
            )
        weights[name] = int(weight)
    return weights


def _bad(reason: str) -> typer.BadParameter:
    return typer.BadParameter(reason, param_hint="'--queues'")
