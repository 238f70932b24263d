"""Helpers for reading manifests and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from pydantic import ValidationError

Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")]


class Part(BaseModel):
    """A part of a manifest: strict types; fields that a later version added are preserved."""

    # Built at the first use: the models that only receive fields of options are never used.
    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="allow",
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
    )


def first_error(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in problem["loc"] if part != "[key]")
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])
