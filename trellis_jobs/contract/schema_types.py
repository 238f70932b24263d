"""Types of which only the JSON Schema is known, because the code is in another service."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from trellis_jobs.contract.payload_types import (
    PayloadType,
    Problem,
    TypeMismatch,
    pointer_to,
)
from trellis_jobs.contract.schema_pointer import may_lead_to_scalar
from trellis_jobs.contract.secret_fields import secret_pointers
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

    from trellis_jobs.model.json_values import Json

Schema = dict[str, Any] | bool
# Formats that pydantic writes and jsonschema checks differently or not at all.
_FORMATS: Final[dict[str, TypeAdapter[Any]]] = {
    "date-time": TypeAdapter(datetime),
    "time": TypeAdapter(time),
    "duration": TypeAdapter(timedelta),
}
_ANYTHING: Final[dict[str, Any]] = {}
_NOTHING: Final[dict[str, Any]] = {"not": {}}
# In the message of the error; its `problems` are all of them, up to a limit.
_MAX_SHOWN: Final = 5
_MAX_PROBLEMS: Final = 100


class SchemaType(PayloadType[Any]):
    """JSON values checked against a schema. Defaults are not filled in."""

    __slots__ = ("_problems", "_schema")

    def __init__(self, schema: Schema) -> None:
        super().__init__(Any)
        self._schema = schema
        validator = _validator_of(schema)
        self.secrets = secret_pointers(schema)
        self._problems = _problems_of(validator, quote_values=not self.secrets)

    @property
    def is_open(self) -> bool:
        """Whether every value is valid, because nothing is known about the type."""
        return self._schema is True or self._schema == {}

    def to_json(self, value: Any) -> Json:
        plain = super().to_json(value)
        self._check(plain)
        return plain

    def from_json(self, value: Json) -> Any:
        self._check(value)
        return super().from_json(value)

    def schema(self) -> Any:
        return self._schema

    def may_hold_key(self, pointer: str) -> bool:
        return may_lead_to_scalar(self._schema, pointer, is_closed=False)

    def _check(self, value: Json) -> None:
        found = sorted(self._problems(value))
        if found:
            text = "; ".join(words for words, _ in found[:_MAX_SHOWN])
            raise TypeMismatch(text, [problem for _, problem in found])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaType) and self._schema == other._schema

    def __hash__(self) -> int:
        return hash(repr(self._schema))


class DigestOnlyType(SchemaType):
    """A type whose schema was too large to store: every value is valid, and secrets are known."""

    __slots__ = ("digest",)

    def __init__(self, digest: str, secrets: tuple[str, ...]) -> None:
        super().__init__(True)
        self.digest = digest
        self.secrets = secrets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DigestOnlyType) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def schema_digest(schema: Schema) -> str:
    """Equal schemas have equal digests."""
    text = json.dumps(schema, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _validator_of(schema: Schema) -> Validator:
    """Build a validator. Raises DeclarationError if the schema is invalid."""
    # Imported here, because services with declared types do not need it and start 40 ms sooner.
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415

    rules = schema if isinstance(schema, dict) else _ANYTHING if schema else _NOTHING
    formats = FormatChecker()
    for name, adapter in _FORMATS.items():
        formats.checks(name, raises=ValueError)(_format_check(adapter))
    kind = validator_for(rules, default=Draft202012Validator)
    try:
        kind.check_schema(rules)
    except SchemaError as error:
        where = _location(error.absolute_path)
        raise DeclarationError(f"not a JSON Schema: {where}: {error.message}") from error
    except RecursionError:
        raise DeclarationError("the schema is nested too deep") from None
    # With an empty registry, remote references in a schema are not fetched.
    return kind(rules, registry=EMPTY_REGISTRY, format_checker=formats)


def _problems_of(
    validator: Validator, *, quote_values: bool
) -> Callable[[Json], list[tuple[str, Problem]]]:
    """Finds each problem, with its words. `quote_values`: these may quote the invalid values."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    def message(problem: ValidationError) -> str:
        rule = f"violates {problem.validator} {problem.validator_value!r}"
        return problem.message if quote_values else rule

    def problems(value: Json) -> list[tuple[str, Problem]]:
        try:
            found = list(islice(validator.iter_errors(value), _MAX_PROBLEMS))
        except (Unresolvable, RecursionError) as error:
            raise TypeMismatch(f"the schema cannot be resolved: {error}") from error
        return [
            (f"{_location(each.absolute_path)}: {why}", Problem(_place(each), why))
            for each, why in ((each, message(each)) for each in found)
        ]

    return problems


def _place(problem: ValidationError) -> str:
    """The pointer to the invalid value; for a field that is missing, to that field."""
    place = pointer_to(problem.absolute_path)
    if problem.validator != "required" or not isinstance(problem.validator_value, list):
        return place
    missing = (
        name
        for name in problem.validator_value
        if problem.message == f"{name!r} is a required property"
    )
    return place + "".join(pointer_to([name]) for name in islice(missing, 1))


def _format_check(adapter: TypeAdapter[Any]) -> Callable[[object], bool]:
    def reads(value: object) -> bool:
        if isinstance(value, str):
            adapter.validate_python(value)
        return True

    return reads


def _location(path: Iterable[str | int]) -> str:
    return ".".join(str(part) for part in path) or "value"
