"""What all answers have in common."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

T = TypeVar("T")


class View(BaseModel):
    """Fields that this version does not know are left out: the other side may be newer."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


def with_missing(told: Any, **missing: Any) -> Any:
    """An answer of the original admin runtime, with what only this one sends.

    So the fields stay required in the contract of this one.
    """
    if not isinstance(told, dict):
        return told
    added = {
        name: value for name, value in missing.items() if not {name, to_camel(name)} & set(told)
    }
    return {**told, **added}


class Page(View, Generic[T]):
    """Live, not a snapshot: entries move between pages as jobs do. `count` is of all of them."""

    entries: tuple[T, ...]
    count: int
    offset: int
    limit: int
    next_offset: int | None = None
