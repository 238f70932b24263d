"""The base classes of all views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class View(BaseModel):
    """Unknown fields are ignored, because the sender may be newer."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,  # a command uses few of the views
    )

    def encode(self) -> bytes:
        """As JSON, without the fields that are unset or None."""
        return self.model_dump_json(by_alias=True, exclude_unset=True, exclude_none=True).encode()


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

    @classmethod
    def of(
        cls, entries: Sequence[T | dict[str, Any]], *, count: int, offset: int, limit: int
    ) -> Self:
        """A page of entries, or of their fields."""
        page = {"entries": tuple(entries), "count": count, "offset": offset, "limit": limit}
        return cls.model_validate(page)
