"""Generate classes: a pydantic model for each object, an enum for each enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trellis_jobs.contract.codegen.annotations import (
    SOURCES,
    Annotations,
    Inexpressible,
    Schema,
)
from trellis_jobs.contract.codegen.layout import (
    class_name,
    field_name,
    lines,
    literal,
    long_text,
    member_name,
    wrapped,
)

_EMPTY: Final = {"list": "list", "dict": "dict", "set": "set"}
_PLAIN: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "bytes": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
_EXTRAS: Final = {False: "forbid", True: "allow"}


class Classes:
    """The generated classes in the order of definition. Names are unique in the module."""

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.fields: set[str] = set()
        self._sources: dict[str, str] = {}
        self._schemas: dict[str, Any] = {}

    @property
    def sources(self) -> list[str]:
        return list(self._sources.values())

    def type_of(self, path: str, hint: str, schema: Any) -> str:
        """The type of a payload or a result; generates the classes that it needs."""
        definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}
        return _Document(self, definitions).type_of(path, hint, schema)

    def is_known(self, path: str, name: str, meaning: Any) -> bool:
        """Whether the class is already defined, or its definition is in progress."""
        if name in SOURCES:
            raise Inexpressible(path, f"{name} is a name that the module imports: rename the type")
        known = self._schemas.setdefault(name, meaning)
        if known is not meaning and known != meaning:
            raise Inexpressible(path, f"two different types are called {name}")
        return known is not meaning

    def add(self, name: str, source: str) -> None:
        self._sources[name] = source


class _Document:
    """One schema document with its definitions."""

    def __init__(self, classes: Classes, definitions: Mapping[str, Any]) -> None:
        self._classes = classes
        self._definitions = definitions
        references = {name: class_name(name) for name in definitions}
        self._annotations = Annotations(references, self._model, classes.needed)

    def type_of(self, path: str, hint: str, schema: Any) -> str:
        definitions = self._definitions
        # Enums first, because the default of a field may be one of their members.
        for name in sorted(self._definitions, key=lambda name: "enum" not in definitions[name]):
            self._defined(f"{path}/$defs/{name}", name, definitions[name])
        written = self._annotations.annotation(path, hint, schema)
        if written == "Any":
            return "object"
        if "|" in written or written.startswith(("Annotated[", "Literal[")):
            raise Inexpressible(path, f"{written} is not a class, so it cannot be a queue's type")
        return written

    def _defined(self, path: str, name: str, schema: Schema) -> None:
        if "enum" in schema and isinstance(schema.get("title"), str):
            self._enum(path, class_name(name), schema)
        elif "properties" in schema:
            self._model(path, name, schema)
        else:
            raise Inexpressible(path, "a definition must be an object or an enum")

    def _model(self, path: str, hint: str, schema: Schema) -> str:
        name = class_name(str(schema.get("title", hint)))
        if self._classes.is_known(path, name, _meaning(schema)):
            return name
        required = set(schema.get("required", ()))
        fields = [
            self._field(f"{path}/{each}", f"{name} {each}", (each, part, each in required))
            for each, part in schema["properties"].items()
        ]
        body = [*_documented(schema), *self._config(name, schema), *fields]
        self._classes.needed.add("BaseModel")
        self._classes.add(name, lines([f"class {name}(BaseModel):", *(body or ["    pass"])]))
        return name

    def _config(self, name: str, schema: Schema) -> Iterator[str]:
        settings = []
        if schema.get("title", name) != name:
            settings.append(f"title={literal(schema['title'])}")
        rest = schema.get("additionalProperties")
        if isinstance(rest, bool):
            settings.append(f"extra={literal(_EXTRAS[rest])}")
        if settings:
            self._classes.needed.add("ConfigDict")
            yield wrapped(f"model_config = ConfigDict({', '.join(settings)})", 1) + "\n"

    def _field(self, path: str, hint: str, part: tuple[str, Any, bool]) -> str:
        name, schema, is_required = part
        written, arguments = self._annotations.annotation(path, hint, schema), []
        plain = field_name(name)
        self._classes.fields.add(plain)
        fields = schema if isinstance(schema, Mapping) else {}
        if not is_required:
            arguments.append(self._default(path, fields, written))
        if plain != name:
            arguments.append(f"alias={literal(name)}")
        if fields.get("title", _title(name)) != _title(name):
            arguments.append(f"title={literal(fields['title'])}")
        arguments += [
            f"{each}={long_text(fields[each])}" for each in ("description",) if each in fields
        ]
        arguments += [
            f"{each}={literal(fields[each])}"
            for each in ("examples", "deprecated")
            if each in fields
        ]
        if not arguments:
            return wrapped(f"{plain}: {written}", 1)
        if len(arguments) == 1 and arguments[0].startswith("default="):
            return wrapped(f"{plain}: {written} = {arguments[0].removeprefix('default=')}", 1)
        self._classes.needed.add("Field")
        return wrapped(f"{plain}: {written} = Field({', '.join(arguments)})", 1)

    def _default(self, path: str, schema: Schema, written: str) -> str:
        container = written.removeprefix("Annotated[").partition("[")[0]
        if "default" not in schema:
            if container in _EMPTY:
                return f"default_factory={_EMPTY[container]}"
            if schema.get("writeOnly") is True:
                raise Inexpressible(
                    path, "its default is secret, so the manifest does not include it"
                )
            raise Inexpressible(path, "it is optional, but the schema has no default")
        value = schema["default"]
        member = self._member(schema, value)
        if member is not None:
            return f"default={member}"
        inner = written[len(container) :]
        holds_others = "$ref" in literal(schema) or "tuple[" in inner or "set[" in inner
        if isinstance(value, list | dict) and value and holds_others:
            raise Inexpressible(path, f"its default, {literal(value)}, is not plain JSON")
        return f"default={self._plain_default(path, written, value)}"

    def _member(self, schema: Schema, value: Any) -> str | None:
        """The enum member that equals the default of a field, or None."""
        for branch in (schema, *schema.get("anyOf", ())):
            name = str(branch.get("$ref", "")).rsplit("/", 1)[-1]
            choices = self._definitions.get(name, {}).get("enum", ())
            if any(type(value) is type(each) and value == each for each in choices):
                return f"{class_name(name)}.{member_name(value)}"
        return None

    def _plain_default(self, path: str, written: str, value: Any) -> str:
        container = written.removeprefix("Annotated[").partition("[")[0]
        if value is not None and any(odd in written for odd in ("dt.", "UUID", "AnyUrl", "Secret")):
            raise Inexpressible(path, f"its default cannot be written as {written}")
        if written in _PLAIN and not isinstance(value, _PLAIN[written]):
            raise Inexpressible(path, f"its default, {literal(value)}, is not a {written}")
        if written == "bytes":
            return repr(value.encode())
        if container in ("set", "tuple") and isinstance(value, list):
            return _collected(container, [literal(each) for each in value])
        return literal(value)

    def _enum(self, path: str, name: str, schema: Schema) -> None:
        if self._classes.is_known(path, name, schema):
            return
        values = schema["enum"]
        base = {"string": "StrEnum", "integer": "IntEnum"}.get(str(schema.get("type")), "Enum")
        members = {member_name(value): value for value in values}
        if len(members) != len(values):
            raise Inexpressible(path, "two of its values would have the same name")
        self._classes.needed.add(base)
        body = [wrapped(f"{each} = {literal(value)}", 1) for each, value in members.items()]
        self._classes.add(name, lines([f"class {name}({base}):", *_documented(schema), *body]))


def _collected(container: str, members: list[str]) -> str:
    if container == "set":
        return f"{{{', '.join(members)}}}" if members else "set()"
    return f"({members[0]},)" if len(members) == 1 else f"({', '.join(members)})"


def _meaning(schema: Schema) -> Schema:
    return {word: value for word, value in schema.items() if word != "$defs"}


def _title(name: str) -> str:
    """The title that pydantic derives from a field name."""
    return name.title().replace("_", " ").strip()


def _documented(schema: Schema) -> Iterator[str]:
    text = schema.get("description")
    if not isinstance(text, str):
        return
    if '"' in text or "\\" in text or not text.isprintable():
        yield wrapped(f"__doc__ = {long_text(text)}", 1) + "\n"
    else:
        yield f'    """{text}"""' + "\n"
