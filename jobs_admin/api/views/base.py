"""The base classes of all views."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

T = TypeVar("T")


class View(BaseModel):
    """Unknown fields are ignored, because the sender may be newer."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


def with_defaults(data: Any, **defaults: Any) -> Any:
    """Add fields that the original admin runtime does not send.

    Defaults on the fields themselves would make them optional in our contract.
    """
    if not isinstance(data, dict):
        return data
    added = {
        name: value for name, value in defaults.items() if not {name, to_camel(name)} & set(data)
    }
    return {**data, **added}


class Page(View, Generic[T]):
    """A live page: entries move between pages as jobs change. `count` is that of all entries."""

    entries: tuple[T, ...]
    count: int
    offset: int
    limit: int
    next_offset: int | None = None
