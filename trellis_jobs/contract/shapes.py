"""Payload and result types ⇄ JSON, through pydantic: models, dataclasses, TypedDicts, scalars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import orjson
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from trellis_jobs.model.json_values import Json

T = TypeVar("T")


class DoesNotFit(ValueError):
    """A value does not fit the declared type; the message says where and why."""


class Shape(Generic[T]):
    """One declared type, with the two directions it is used in."""

    __slots__ = ("_adapter", "type")

    def __init__(self, declared: type[T]) -> None:
        self.type = declared
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(declared)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise DeclarationError(
                f"{declared!r} cannot be a payload or result: {error}"
            ) from error

    def to_json(self, value: T) -> Json:
        try:
            checked = self._adapter.validate_python(value)
            plain = self._adapter.dump_python(checked, mode="json", by_alias=True, warnings="error")
        except ValidationError as error:
            raise DoesNotFit(_explain(error)) from None
        except PydanticSerializationError as error:
            raise DoesNotFit(str(error)) from None
        _check_json(plain, "")
        return cast("Json", plain)

    def from_json(self, value: Json) -> T:
        try:
            return self._adapter.validate_json(orjson.dumps(value))
        except ValidationError as error:
            raise DoesNotFit(_explain(error)) from None

    def schema(self) -> dict[str, Any]:
        return self._adapter.json_schema(by_alias=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)


def _explain(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'value'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    ]
    return "; ".join(problems)


def _check_json(value: Any, path: str) -> None:
    """JSON has no NaN, no infinity, and no integer that every reader would keep exact."""
    if isinstance(value, dict):
        for name, member in value.items():
            _check_json(member, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            _check_json(member, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise DoesNotFit(f"{path or 'value'}: JSON has no {value}")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise DoesNotFit(f"{path or 'value'}: {value} has more than 64 bits; send it as text")
