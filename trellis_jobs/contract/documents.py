"""Helpers for reading manifests and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

if TYPE_CHECKING:
    from pydantic import ValidationError

Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")]


def first_error(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in problem["loc"] if part != "[key]")
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])
