"""A type of which only the JSON Schema is known, because its code is elsewhere."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from trellis_jobs.contract.payload_types import PayloadType, TypeMismatch
from trellis_jobs.contract.schema_pointer import may_lead_to_scalar
from trellis_jobs.contract.secret_fields import secret_places
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

    from trellis_jobs.model.json_values import Json

Schema = dict[str, Any] | bool
# Of what pydantic writes, all that the library leaves unchecked or checks otherwise.
_FORMATS: Final[dict[str, TypeAdapter[Any]]] = {
    "date-time": TypeAdapter(datetime),
    "time": TypeAdapter(time),
    "duration": TypeAdapter(timedelta),
}
_EVERYTHING: Final[dict[str, Any]] = {}
_NOTHING: Final[dict[str, Any]] = {"not": {}}
_PROBLEMS_TOLD: Final = 5


class SchemaType(PayloadType[Any]):
    """JSON as it is, checked; what has a default in the code is not filled in."""

    __slots__ = ("_problems", "_schema")

    def __init__(self, schema: Schema) -> None:
        super().__init__(Any)
        self._schema = schema
        validator = _validator_of(schema)
        self.secrets = secret_places(schema)
        self._problems = _problems_of(validator, tells_values=not self.secrets)

    @property
    def is_open(self) -> bool:
        """Nothing is known of the type, so everything fits."""
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
        problems = sorted(self._problems(value))
        if problems:
            raise TypeMismatch("; ".join(problems[:_PROBLEMS_TOLD]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaType) and self._schema == other._schema

    def __hash__(self) -> int:
        return hash(repr(self._schema))


class DigestOnlyType(SchemaType):
    """A type too large to be told: everything fits, and where its secrets are is known."""

    __slots__ = ("digest",)

    def __init__(self, digest: str, secrets: tuple[str, ...]) -> None:
        super().__init__(True)
        self.digest = digest
        self.secrets = secrets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DigestOnlyType) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def digest_of(schema: Schema) -> str:
    """The same for the same schema, whoever wrote it."""
    text = json.dumps(schema, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _validator_of(schema: Schema) -> Validator:
    """Raises DeclarationError for what is no schema."""
    # Imported here: a service that declares its types never comes by, and starts 40 ms sooner.
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415

    rules = schema if isinstance(schema, dict) else _EVERYTHING if schema else _NOTHING
    formats = FormatChecker()
    for name, adapter in _FORMATS.items():
        formats.checks(name, raises=ValueError)(_reads_as(adapter))
    kind = validator_for(rules, default=Draft202012Validator)
    try:
        kind.check_schema(rules)
    except SchemaError as error:
        place = _place(error.absolute_path)
        raise DeclarationError(f"the schema is none: {place}: {error.message}") from error
    except RecursionError:
        raise DeclarationError("the schema is nested too deeply to be followed") from None
    # The registry is empty, so that nothing a schema refers to is fetched from elsewhere.
    return kind(rules, registry=EMPTY_REGISTRY, format_checker=formats)


def _problems_of(validator: Validator, *, tells_values: bool) -> Callable[[Json], list[str]]:
    """`tells_values`: the messages may quote what does not fit."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    def said(problem: ValidationError) -> str:
        rule = f"it does not fit {problem.validator} {problem.validator_value!r}"
        return problem.message if tells_values else rule

    def problems(value: Json) -> list[str]:
        try:
            found = list(validator.iter_errors(value))
        except (Unresolvable, RecursionError) as error:
            raise TypeMismatch(f"the schema cannot be followed: {error}") from error
        return [f"{_place(each.absolute_path)}: {said(each)}" for each in found]

    return problems


def _reads_as(adapter: TypeAdapter[Any]) -> Callable[[object], bool]:
    def reads(value: object) -> bool:
        if isinstance(value, str):
            adapter.validate_python(value)
        return True

    return reads


def _place(path: Iterable[str | int]) -> str:
    return ".".join(str(part) for part in path) or "value"
