"""Payload and result types ⇄ JSON, through pydantic: models, dataclasses, TypedDicts, scalars."""

from __future__ import annotations

import inspect
import math
import re
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, cast, get_args

import orjson
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from trellis_jobs.contract.schema_pointer import may_lead_to_scalar
from trellis_jobs.contract.secret_fields import (
    SecretElsewhere,
    secret_places,
    with_secrets,
    without_secret_values,
)
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from trellis_jobs.model.json_values import Json

T = TypeVar("T")

# pydantic's own limit when it reads JSON back.
DEEPEST: Final = 200
# What pydantic writes for a secret, of text and of bytes.
_MASKS: Final = ("**********", b"**********")
_COLLECTIONS: Final = (list, tuple, set, frozenset)
_CONTAINERS: Final = (dict, *_COLLECTIONS)
# Their words are pydantic's own, and quote nothing that was given.
_SAID_BY_PYDANTIC: Final = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}
_VALUES: Final = (dict, list, tuple, set, frozenset, str, bytes, int, float)
# What pydantic raises for objects that are not types.
_NO_TYPE: Final = (
    PydanticSchemaGenerationError,
    PydanticUserError,
    AttributeError,
    KeyError,
    NameError,
    TypeError,
)
_WANTED: Final = "pass a type, such as a pydantic model, a dataclass, a TypedDict or int"
_HALF_A_PAIR: Final = re.compile("[\ud800-\udfff]")


class TypeMismatch(ValueError):
    """A value does not fit the declared type; the message says where and why."""


class PayloadType(Generic[T]):
    """One declared type, with the two directions it is used in.

    `secrets` are the places in its values that are not shown.
    """

    __slots__ = ("_adapter", "secrets", "type")

    def __init__(self, declared: type[T]) -> None:
        self.type = declared
        if _is_value(declared):
            raise DeclarationError(f"{declared!r} cannot be a payload or result: {_WANTED}")
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(declared)
        except _NO_TYPE as error:
            raise DeclarationError(
                f"{declared!r} cannot be a payload or result: {_WANTED} ({error})"
            ) from error
        self.secrets = self._secrets()

    def to_json(self, value: T) -> Json:
        try:
            checked = self._adapter.validate_python(value)
            plain = self._plain(checked)
            found = _check_json(plain)
            if found.has_mask:
                # What pydantic masks is lost, unless it is where the type tells of it.
                with_secrets(plain, self._dump(checked, "python"), self.secrets)
            if found.has_null:
                # Where the type says Any, pydantic has written NaN and infinity as null.
                _check_json(self._dump(checked, "python"))
        except ValidationError as error:
            raise TypeMismatch(self._explain(error)) from None
        except SecretElsewhere as error:
            raise TypeMismatch(str(error)) from None
        except (TypeError, ValueError, RecursionError) as error:
            hidden = f"it has no form in JSON ({type(error).__name__})"
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
            raise TypeMismatch(self._explain(error)) from None

    def schema(self) -> dict[str, Any]:
        """As it may be shown: defaults and examples of secrets are left out."""
        try:
            schema = self._adapter.json_schema(by_alias=True)
        except PydanticUserError as error:
            raise DeclarationError(f"{self.type!r} has no JSON Schema: {error}") from error
        return without_secret_values(schema) if self.secrets else schema

    def may_hold_key(self, pointer: str) -> bool:
        """False if what is written of this type certainly has nothing there to make a key of."""
        try:
            written = self._adapter.json_schema(by_alias=True, mode="serialization")
        except PydanticUserError:
            return True
        return may_lead_to_scalar(written, pointer, is_closed=True)

    def _secrets(self) -> tuple[str, ...]:
        """A type without a JSON Schema can say of none of its fields that they are secret.

        By the names that are written, and by those that are read, which may be others.
        """
        try:
            read = self._adapter.json_schema(by_alias=True)
            written = self._adapter.json_schema(by_alias=True, mode="serialization")
        except PydanticUserError:
            return ()
        return tuple(dict.fromkeys((*secret_places(read), *secret_places(written))))

    def _plain(self, value: T) -> Any:
        plain = self._dump(value, "json")
        if not self.secrets:
            return plain
        return with_secrets(plain, self._dump(value, "python"), self.secrets)

    def _explain(self, error: ValidationError) -> str:
        """Where something is secret, what a validator says may quote it, so it is not repeated.

        Nor are names that the type does not declare: they may be keys of a secret dictionary.
        """
        declared = _declared_names(self.schema()) if self.secrets else None
        return "; ".join(
            f"{_place(problem['loc'], declared)}: {self._why(problem)}"
            for problem in error.errors(include_url=False, include_input=False)
        )

    def _why(self, problem: ErrorDetails) -> str:
        is_ours = problem["type"] in _SAID_BY_PYDANTIC
        return problem["msg"] if is_ours or not self.secrets else problem["type"]

    def _dump(self, value: T, mode: Literal["json", "python"]) -> Any:
        """round_trip: without computed fields, which could not be read back."""
        return self._adapter.serializer.to_python(
            value, mode=mode, by_alias=True, round_trip=True, warnings="error"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PayloadType) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)


def _is_value(declared: object) -> bool:
    """Mistakes that pydantic takes for something else, or fails at."""
    return isinstance(declared, _VALUES) or inspect.isroutine(declared)


def _place(parts: tuple[int | str, ...], declared: frozenset[str] | None) -> str:
    """`declared`: the only names that are told."""
    told = [
        "*" if isinstance(part, str) and declared is not None and part not in declared else part
        for part in parts
    ]
    return ".".join(map(str, told)) or "value"


def _declared_names(schema: Any) -> frozenset[str]:
    """Of all fields, anywhere in it."""
    if isinstance(schema, list):
        return frozenset[str]().union(*map(_declared_names, schema))
    if not isinstance(schema, dict):
        return frozenset()
    own = schema.get("properties")
    names = frozenset(own) if isinstance(own, dict) else frozenset[str]()
    return names.union(*map(_declared_names, schema.values()))


class _JsonCheck:
    """JSON has no NaN, no infinity, and no integer that every reader would keep exact."""

    def __init__(self) -> None:
        self.has_null = False
        self.has_mask = False

    def check(self, value: Any, path: str, depth: int) -> None:
        if depth == DEEPEST and isinstance(value, _CONTAINERS):
            raise TypeMismatch(f"the value is nested more than {DEEPEST} levels deep")
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
    """Nearly everything: known at a glance to be neither null, nor masked, nor out of bounds."""
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
        raise TypeMismatch(f"{path}: JSON has no {value}")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TypeMismatch(f"{path}: {value} has more than 64 bits; send it as text")
    if isinstance(value, str) and _HALF_A_PAIR.search(value):
        raise TypeMismatch(f"{path}: half a surrogate pair cannot be written as UTF-8")
