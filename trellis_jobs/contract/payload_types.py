"""Payload and result types ⇄ JSON with pydantic: models, dataclasses, TypedDicts, scalars."""

from __future__ import annotations

import inspect
import math
import re
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    get_args,
)

import orjson
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from trellis_jobs.contract.schema_pointer import may_lead_to_scalar
from trellis_jobs.contract.secret_fields import (
    UndeclaredSecret,
    restore_secrets,
    secret_pointers,
    without_secret_defaults,
)
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_core import ErrorDetails

    from trellis_jobs.model.json_values import Json

T = TypeVar("T")

# pydantic's limit for decoding JSON.
MAX_DEPTH: Final = 200
# What pydantic writes in place of secret strings and bytes.
_MASKS: Final = ("**********", b"**********")
_COLLECTIONS: Final = (list, tuple, set, frozenset)
_CONTAINERS: Final = (dict, *_COLLECTIONS)
# The messages of these errors come from pydantic and do not quote the input.
_PYDANTIC_ERROR_TYPES: Final = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}
_VALUES: Final = (dict, list, tuple, set, frozenset, str, bytes, int, float)
# The errors that pydantic raises for objects that are not types.
_NOT_A_TYPE: Final = (
    PydanticSchemaGenerationError,
    PydanticUserError,
    AttributeError,
    KeyError,
    NameError,
    TypeError,
)
_TYPE_EXPECTED: Final = "pass a type, such as a pydantic model, a dataclass, a TypedDict or int"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Problem(NamedTuple):
    """Where a value does not match its type, as a JSON Pointer, and why."""

    pointer: str
    message: str


class TypeMismatch(ValueError):
    """A value does not match its declared type; the message says where and why."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (Problem("", message),)


class PayloadType(Generic[T]):
    """A declared type, which encodes values to JSON and decodes them.

    `secrets` are JSON Pointers to the secret fields of its values.
    """

    __slots__ = ("_adapter", "secrets", "type")

    def __init__(self, declared: type[T]) -> None:
        self.type = declared
        if _is_value(declared):
            raise DeclarationError(f"{declared!r} cannot be a payload or result: {_TYPE_EXPECTED}")
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(declared)
        except _NOT_A_TYPE as error:
            raise DeclarationError(
                f"{declared!r} cannot be a payload or result: {_TYPE_EXPECTED} ({error})"
            ) from error
        self.secrets = self._secrets()

    def to_json(self, value: T) -> Json:
        try:
            checked = self._adapter.validate_python(value)
            plain = self._plain(checked)
            found = _check_json(plain)
            if found.has_mask:
                # Raises UndeclaredSecret if pydantic masked a value that is not a known secret.
                restore_secrets(plain, self._dump(checked, "python"), self.secrets)
            if found.has_null:
                # Where the type is Any, pydantic writes NaN and infinity as null.
                _check_json(self._dump(checked, "python"))
        except ValidationError as error:
            raise self._mismatch(error) from None
        except UndeclaredSecret as error:
            raise TypeMismatch(str(error)) from None
        except (TypeError, ValueError, RecursionError) as error:
            hidden = f"it cannot be encoded as JSON ({type(error).__name__})"
            raise TypeMismatch(hidden if self.secrets else str(error)) from None
        return cast("Json", plain)

    def from_json(self, value: Json) -> T:
        try:
            data = orjson.dumps(value)
        except orjson.JSONEncodeError as error:
            raise TypeMismatch(str(error)) from None
        try:
            return self._adapter.validate_json(data)
        except ValidationError as error:
            raise self._mismatch(error) from None

    def schema(self) -> dict[str, Any]:
        """The JSON Schema, without the defaults and examples of secrets."""
        try:
            schema = self._adapter.json_schema(by_alias=True)
        except PydanticUserError as error:
            raise DeclarationError(f"{self.type!r} has no JSON Schema: {error}") from error
        return without_secret_defaults(schema) if self.secrets else schema

    def may_hold_key(self, pointer: str) -> bool:
        """False if no encoded value of this type can have a scalar at the pointer."""
        try:
            written = self._adapter.json_schema(by_alias=True, mode="serialization")
        except PydanticUserError:
            return True
        return may_lead_to_scalar(written, pointer, is_closed=True)

    def _secrets(self) -> tuple[str, ...]:
        """Secret fields under both their input names and their output names, which may differ.

        A type without a JSON Schema has no secret fields.
        """
        try:
            read = self._adapter.json_schema(by_alias=True)
            written = self._adapter.json_schema(by_alias=True, mode="serialization")
        except PydanticUserError:
            return ()
        return tuple(dict.fromkeys((*secret_pointers(read), *secret_pointers(written))))

    def _plain(self, value: T) -> Any:
        plain = self._dump(value, "json")
        if not self.secrets:
            return plain
        return restore_secrets(plain, self._dump(value, "python"), self.secrets)

    def _mismatch(self, error: ValidationError) -> TypeMismatch:
        """Describe validation errors. With secrets, messages of validators are left out.

        Names that the type does not declare are left out too, because they may be keys of a secret
        dictionary.
        """
        declared = _declared_names(self.schema()) if self.secrets else None
        found = [
            (_shown_parts(each["loc"], declared), self._why(each))
            for each in error.errors(include_url=False, include_input=False)
        ]
        text = "; ".join(f"{'.'.join(parts) or 'value'}: {why}" for parts, why in found)
        return TypeMismatch(text, [Problem(pointer_to(parts), why) for parts, why in found])

    def _why(self, problem: ErrorDetails) -> str:
        is_safe = problem["type"] in _PYDANTIC_ERROR_TYPES
        return problem["msg"] if is_safe or not self.secrets else problem["type"]

    def _dump(self, value: T, mode: Literal["json", "python"]) -> Any:
        """round_trip leaves out computed fields, which could not be decoded again."""
        return self._adapter.serializer.to_python(
            value, mode=mode, by_alias=True, round_trip=True, warnings="error"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PayloadType) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)


def _is_value(declared: object) -> bool:
    """Values passed by mistake that pydantic would misinterpret or fail on."""
    return isinstance(declared, _VALUES) or inspect.isroutine(declared)


def pointer_to(parts: Iterable[str | int]) -> str:
    """The JSON Pointer of a location."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def _shown_parts(parts: tuple[int | str, ...], declared: frozenset[str] | None) -> list[str]:
    """The parts of a location. Names that are not in `declared` are replaced by `*`."""
    return [
        "*"
        if isinstance(part, str) and declared is not None and part not in declared
        else str(part)
        for part in parts
    ]


def _declared_names(schema: Any) -> frozenset[str]:
    """The names of all fields in a schema, at any depth."""
    if isinstance(schema, list):
        return frozenset[str]().union(*map(_declared_names, schema))
    if not isinstance(schema, dict):
        return frozenset()
    own = schema.get("properties")
    names = frozenset(own) if isinstance(own, dict) else frozenset[str]()
    return names.union(*map(_declared_names, schema.values()))


class _JsonCheck:
    """Rejects values that JSON or other readers cannot represent, such as NaN and huge integers."""

    def __init__(self) -> None:
        self.has_null = False
        self.has_mask = False

    def check(self, value: Any, path: str, depth: int) -> None:
        if depth == MAX_DEPTH and isinstance(value, _CONTAINERS):
            raise TypeMismatch(f"the value is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, dict):
            for name, member in value.items():
                if not _is_plain(name):
                    self.check(name, path, depth)
                if not _is_plain(member):
                    self.check(member, f"{path}.{name}" if path else str(name), depth + 1)
        elif isinstance(value, _COLLECTIONS):
            for index, member in enumerate(value):
                self.check(member, f"{path}[{index}]", depth + 1)
        else:
            self.has_null |= value is None
            self.has_mask |= value in _MASKS
            _check_scalar(value, path or "value")


def _is_plain(value: Any) -> bool:
    """A quick test for the common values that need no further check."""
    kind = type(value)
    if kind is str:
        return value.isascii() and value not in _MASKS
    return kind is bool or (kind is int and -(2**63) <= value < 2**63)


def _check_json(value: Any) -> _JsonCheck:
    checked = _JsonCheck()
    checked.check(value, "", 0)
    return checked


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeMismatch(f"{path}: JSON cannot represent {value}")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TypeMismatch(f"{path}: {value} has more than 64 bits; send it as a string")
    if isinstance(value, str) and _SURROGATE.search(value):
        raise TypeMismatch(f"{path}: a lone surrogate cannot be encoded as UTF-8")
