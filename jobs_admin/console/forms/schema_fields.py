"""Turns the JSON Schema of a payload into the fields of a form.

Strings, numbers, booleans, choices, dates, nested objects and lists of scalars become fields.
Anything else becomes a field for JSON. A field is named by its JSON Pointer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import orjson

from trellis_jobs.model.redaction import (
    REDACTED,
    is_secret,
    redacted,
    redacted_places,
    secrets_below,
    with_value_at,
)

Schema = Mapping[str, Any]
_MAX_DEPTH: Final = 4
_MAX_NAMED: Final = 5
_SCALARS: Final = frozenset({"string", "integer", "number"})


class FieldKind(StrEnum):
    TEXT = "text"
    LONG_TEXT = "long-text"
    INTEGER = "integer"
    NUMBER = "number"
    CHECKBOX = "checkbox"
    CHOICE = "choice"
    DATE = "date"
    TIME = "time"
    SECRET = "secret"  # noqa: S105 - the kind of a field
    LINES = "lines"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """`text` is what the form shows; `item` is the kind of each line of a LINES field.

    A field that is not required and empty is left out of the payload. `secrets` are JSON Pointers
    into its value. `again` are pointers to the secrets that were hidden and must be entered again.
    """

    pointer: str
    label: str
    kind: FieldKind
    required: bool
    text: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    item: FieldKind = FieldKind.TEXT
    secrets: tuple[str, ...] = ()
    again: tuple[str, ...] = ()

    def filled(self, value: Any) -> FormField:
        """The field with a value, in which secrets are blank."""
        again = tuple(f"{self.pointer}{place}" for place in redacted_places(value, self.secrets))
        value = redacted(value, self.secrets)
        for place in redacted_places(value, self.secrets):
            value = with_value_at(value, place, None)
        return replace(self, text=_text(value, self.kind), again=again)

    @property
    def again_hint(self) -> str:
        if self.again in ((), (self.pointer,)):
            return "It is hidden: enter it again." if self.again else ""
        more = ", …" if len(self.again) > _MAX_NAMED else ""
        names = ", ".join(self.again[:_MAX_NAMED]) + more
        return f"Secrets are hidden: enter them again ({names})."

    @property
    def name(self) -> str:
        """In a form; browsers do not send a field whose name is empty."""
        return f"payload{self.pointer}"

    @property
    def element_id(self) -> str:
        return f"field{self.pointer.replace('/', '-')}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the payload a schema applies, and what is there now."""

    pointer: str
    label: str
    required: bool
    value: Any
    depth: int = 0


class SchemaFields:
    """`secrets` are JSON Pointers in which `*` matches every item."""

    def __init__(self, schema: Schema | None, secrets: tuple[str, ...] = ()) -> None:
        self._root = schema or {}
        self._secrets = secrets

    def fields(self, payload: Any = None) -> list[FormField]:
        """The fields of the form, filled with a payload; without a schema one field for JSON."""
        return list(self._of(self._root, _Place("", "payload", True, payload)))

    def _of(self, schema: Schema, place: _Place) -> Iterator[FormField]:
        schema = self._resolved(schema)
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties and place.depth < _MAX_DEPTH:
            yield from self._of_object(schema, properties, place)
        else:
            yield self._field(schema, place)

    def _of_object(
        self, schema: Schema, properties: Mapping[str, Any], place: _Place
    ) -> Iterator[FormField]:
        required = schema.get("required") or ()
        values = place.value if isinstance(place.value, dict) else {}
        is_hidden = place.value == REDACTED and is_secret(place.pointer, self._secrets)
        prefix = f"{place.label}." if place.pointer else ""
        for name, inner in properties.items():
            pointer = f"{place.pointer}/{_escaped(name)}"
            default = inner.get("default") if isinstance(inner, dict) else None
            yield from self._of(
                inner if isinstance(inner, dict) else {},
                _Place(
                    pointer,
                    f"{prefix}{name}",
                    place.required and name in required,
                    REDACTED if is_hidden else values.get(name, default),
                    place.depth + 1,
                ),
            )

    def _field(self, schema: Schema, place: _Place) -> FormField:
        choices = _choices(schema)
        secrets = secrets_below(place.pointer, self._secrets)
        kind = self._kind(schema, secrets, choices)
        item = self._item_kind(schema)
        field = FormField(
            pointer=place.pointer,
            label=place.label,
            kind=kind,
            required=place.required,
            help=str(schema.get("description", "")),
            choices=choices,
            item=item or FieldKind.JSON,
            secrets=secrets,
        )
        return field.filled(place.value)

    def _kind(
        self, schema: Schema, secrets: tuple[str, ...], choices: tuple[str, ...]
    ) -> FieldKind:
        if "" in secrets and schema.get("type") == "string":
            return FieldKind.SECRET
        if choices:
            return FieldKind.CHOICE
        if schema.get("type") == "array" and self._item_kind(schema) is not None:
            return FieldKind.LINES
        return _scalar_kind(schema) or FieldKind.JSON

    def _item_kind(self, schema: Schema) -> FieldKind | None:
        items = schema.get("items")
        if not isinstance(items, dict) or self._resolved(items).get("type") not in _SCALARS:
            return None
        return _scalar_kind(self._resolved(items))

    def _resolved(self, schema: Schema) -> Schema:
        """Follow references, and take the other type of one that may be null."""
        for _ in range(_MAX_DEPTH):
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                schema = self._definition(reference.removeprefix("#/$defs/"))
                continue
            options = schema.get("anyOf")
            real = [each for each in options or () if each != {"type": "null"}]
            if not isinstance(options, list) or len(real) != 1:
                return schema
            schema = {**{k: v for k, v in schema.items() if k != "anyOf"}, **real[0]}
        return {}

    def _definition(self, name: str) -> Schema:
        found = (self._root.get("$defs") or {}).get(name)
        return found if isinstance(found, dict) else {}


def _choices(schema: Schema) -> tuple[str, ...]:
    """Each choice as JSON, because 1 and "1" differ."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return tuple(json_text(value) for value in values) if isinstance(values, list) else ()


_FORMATS: Final = {"date": FieldKind.DATE, "date-time": FieldKind.TIME}
_KINDS: Final = {
    "boolean": FieldKind.CHECKBOX,
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
}
_LONG_TEXT: Final = 200


def _scalar_kind(schema: Schema) -> FieldKind | None:
    kind = schema.get("type")
    if kind != "string":
        return _KINDS.get(str(kind))
    if isinstance(schema.get("maxLength"), int) and schema["maxLength"] > _LONG_TEXT:
        return FieldKind.LONG_TEXT
    return _FORMATS.get(str(schema.get("format")), FieldKind.TEXT)


def _text(value: Any, kind: FieldKind) -> str:
    if kind is FieldKind.CHECKBOX:
        return "on" if value is True else ""
    if value is None:
        return ""
    if kind is FieldKind.LINES and isinstance(value, list):
        return "\n".join(_plain(item) for item in value if item is not None)
    return json_text(value) if kind in (FieldKind.JSON, FieldKind.CHOICE) else _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def json_text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
