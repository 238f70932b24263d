"""Convert JSON Schemas to type annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trellis_jobs.contract.codegen.layout import literal
from trellis_jobs.contract.schema_changes import ANNOTATIONS
from trellis_jobs.errors import DeclarationError

Schema = Mapping[str, Any]


class Inexpressible(DeclarationError):
    """A manifest has a type or default that cannot be written as Python code."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


# The names that a generated module may import, and their modules.
SOURCES: Final[Mapping[str, str]] = {
    "Annotated": "typing",
    "Any": "typing",
    "Literal": "typing",
    "UUID": "uuid",
    "Enum": "enum",
    "IntEnum": "enum",
    "StrEnum": "enum",
    "AnyUrl": "pydantic",
    "BaseModel": "pydantic",
    "ConfigDict": "pydantic",
    "Field": "pydantic",
    "SecretStr": "pydantic",
    "Cron": "trellis_jobs",
    "Every": "trellis_jobs",
    "Jobs": "trellis_jobs",
    "KeyConcurrency": "trellis_jobs",
    "QueueDepth": "trellis_jobs",
    "Secret": "trellis_jobs",
    "job": "trellis_jobs",
    "upgraded_elsewhere": "trellis_jobs",
}
_SCALARS: Final = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_FORMATS: Final = {
    "date-time": "dt.datetime",
    "date": "dt.date",
    "time": "dt.time",
    "duration": "dt.timedelta",
    "uuid": "UUID",
    "uri": "AnyUrl",
    "binary": "bytes",
}
_CONSTRAINTS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}


class Annotations:
    """`define` generates the class of an object schema and returns its name."""

    def __init__(
        self,
        references: Mapping[str, str],
        define: Callable[[str, str, Schema], str],
        needed: set[str],
    ) -> None:
        self._references = references
        self._define = define
        self._needed = needed

    def annotation(self, path: str, hint: str, schema: Any) -> str:
        """`hint` is the name of a class whose schema has no title."""
        if schema is True:
            return self._need("Any")
        if not isinstance(schema, Mapping):
            raise Inexpressible(path, f"no value is valid for {schema!r}")
        bare = self._bare(path, hint, schema)
        extras = [f"{_CONSTRAINTS[word]}={literal(schema[word])}" for word in _limits(schema, bare)]
        notes = [f"{self._need('Field')}({', '.join(extras)})"] if extras else []
        if schema.get("writeOnly") is True and bare != "SecretStr":
            notes.append(f"{self._need('Secret')}()")
        return f"{self._need('Annotated')}[{', '.join([bare, *notes])}]" if notes else bare

    def _bare(self, path: str, hint: str, schema: Schema) -> str:
        for word, write in _WRITERS.items():
            if word in schema:
                return write(self, path, hint, schema)
        kind = str(schema.get("type"))
        if not schema.keys() - ANNOTATIONS:
            return self._need("Any")
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "string":
            return self._string(path, schema)
        if kind == "array":
            return self._array(path, hint, schema)
        if kind == "object":
            return self._object(path, hint, schema)
        raise Inexpressible(path, f"a value of type {kind} is not supported")

    def _string(self, path: str, schema: Schema) -> str:
        form = schema.get("format")
        if form == "password" and schema.get("writeOnly") is True:
            return self._need("SecretStr")
        if form is None:
            return "str"
        if form not in _FORMATS:
            raise Inexpressible(path, f"text of format {form!r} is not supported")
        return self._need(_FORMATS[form])

    def _array(self, path: str, hint: str, schema: Schema) -> str:
        if "prefixItems" in schema:
            items = schema["prefixItems"]
            each = [
                self.annotation(f"{path}/{n}", f"{hint} {n}", item) for n, item in enumerate(items)
            ]
            return f"tuple[{', '.join(each)}]"
        item = self.annotation(f"{path}/*", f"{hint} item", schema.get("items", True))
        return f"{'set' if schema.get('uniqueItems') else 'list'}[{item}]"

    def _object(self, path: str, hint: str, schema: Schema) -> str:
        if "properties" in schema:
            return self._define(path, hint, schema)
        rest = schema.get("additionalProperties", True)
        return f"dict[str, {self.annotation(f'{path}/*', f'{hint} value', rest)}]"

    def reference(self, path: str, _hint: str, schema: Schema) -> str:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        if name not in self._references:
            raise Inexpressible(path, f"{schema['$ref']!r} is not defined")
        return self._references[name]

    def choices(self, path: str, _hint: str, schema: Schema) -> str:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if not values or not all(isinstance(value, str | int | None) for value in values):
            raise Inexpressible(path, f"{values!r} cannot be written as a Literal")
        return f"{self._need('Literal')}[{', '.join(map(literal, values))}]"

    def branches(self, path: str, hint: str, schema: Schema) -> str:
        word = next(word for word in ("anyOf", "oneOf", "allOf") if word in schema)
        if word == "allOf" and len(schema[word]) > 1:
            raise Inexpressible(path, "allOf with several schemas is not supported")
        kinds = [self.annotation(path, f"{hint} {n}", each) for n, each in enumerate(schema[word])]
        written = " | ".join(dict.fromkeys(kinds))
        by = schema.get("discriminator", {}).get("propertyName")
        if by is None:
            return written
        field = f"{self._need('Field')}(discriminator={literal(by)})"
        return f"{self._need('Annotated')}[{written}, {field}]"

    def _need(self, name: str) -> str:
        self._needed.add(name)
        return name


def _limits(schema: Schema, bare: str) -> Iterator[str]:
    for word in _CONSTRAINTS:
        implied = (bare == "AnyUrl" and word == "minLength") or bare.startswith("tuple[")
        if word in schema and not implied:
            yield word


_WRITERS: Final[Mapping[str, Callable[[Annotations, str, str, Schema], str]]] = {
    "$ref": Annotations.reference,
    "const": Annotations.choices,
    "enum": Annotations.choices,
    "anyOf": Annotations.branches,
    "oneOf": Annotations.branches,
    "allOf": Annotations.branches,
}
