"""The classes of a generated module: a model for each object, an enum for each list of choices."""

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
    """In the order in which they must be defined; a name means one class in the whole module."""

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.fields: set[str] = set()
        self._sources: dict[str, str] = {}
        self._schemas: dict[str, Any] = {}

    @property
    def sources(self) -> list[str]:
        return list(self._sources.values())

    def type_of(self, path: str, hint: str, schema: Any) -> str:
        """What stands for a payload or a result; its classes are defined."""
        definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}
        return _Document(self, definitions).type_of(path, hint, schema)

    def is_known(self, path: str, name: str, meaning: Any) -> bool:
        """Whether it is defined already, or about to be."""
        if name in SOURCES:
            raise Inexpressible(
                path, f"{name} is a name that the module imports: call it otherwise"
            )
        known = self._schemas.setdefault(name, meaning)
        if known is not meaning and known != meaning:
            raise Inexpressible(path, f"two different types are called {name}")
        return known is not meaning

    def add(self, name: str, source: str) -> None:
        self._sources[name] = source


class _Document:
    """One schema with its definitions."""

    def __init__(self, classes: Classes, definitions: Mapping[str, Any]) -> None:
        self._classes = classes
        self._definitions = definitions
        references = {name: class_name(name) for name in definitions}
        self._annotations = Annotations(references, self._model, classes.needed)

    def type_of(self, path: str, hint: str, schema: Any) -> str:
        definitions = self._definitions
        # Enums first: a field may have one of their members as its default.
        for name in sorted(self._definitions, key=lambda name: "enum" not in definitions[name]):
            self._defined(f"{path}/$defs/{name}", name, definitions[name])
        written = self._annotations.of(path, hint, schema)
        if written == "Any":
            return "object"
        if "|" in written or written.startswith(("Annotated[", "Literal[")):
            raise Inexpressible(path, f"{written} is no class, so it cannot be a queue's type")
        return written

    def _defined(self, path: str, name: str, schema: Schema) -> None:
        if "enum" in schema and isinstance(schema.get("title"), str):
            self._enum(path, class_name(name), schema)
        elif "properties" in schema:
            self._model(path, name, schema)
        else:
            raise Inexpressible(path, "a definition that is neither an object nor an enum")

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
        said = []
        if schema.get("title", name) != name:
            said.append(f"title={literal(schema['title'])}")
        rest = schema.get("additionalProperties")
        if isinstance(rest, bool):
            said.append(f"extra={literal(_EXTRAS[rest])}")
        if said:
            self._classes.needed.add("ConfigDict")
            yield wrapped(f"model_config = ConfigDict({', '.join(said)})", 1) + "\n"

    def _field(self, path: str, hint: str, part: tuple[str, Any, bool]) -> str:
        name, schema, is_required = part
        written, said = self._annotations.of(path, hint, schema), []
        plain = field_name(name)
        self._classes.fields.add(plain)
        told = schema if isinstance(schema, Mapping) else {}
        if not is_required:
            said.append(self._default(path, told, written))
        if plain != name:
            said.append(f"alias={literal(name)}")
        if told.get("title", _title(name)) != _title(name):
            said.append(f"title={literal(told['title'])}")
        said += [f"{each}={long_text(told[each])}" for each in ("description",) if each in told]
        said += [
            f"{each}={literal(told[each])}" for each in ("examples", "deprecated") if each in told
        ]
        if not said:
            return wrapped(f"{plain}: {written}", 1)
        if len(said) == 1 and said[0].startswith("default="):
            return wrapped(f"{plain}: {written} = {said[0].removeprefix('default=')}", 1)
        self._classes.needed.add("Field")
        return wrapped(f"{plain}: {written} = Field({', '.join(said)})", 1)

    def _default(self, path: str, schema: Schema, written: str) -> str:
        container = written.removeprefix("Annotated[").partition("[")[0]
        if "default" not in schema:
            if container in _EMPTY:
                return f"default_factory={_EMPTY[container]}"
            if schema.get("writeOnly") is True:
                raise Inexpressible(path, "its default is secret, and so not in the manifest")
            raise Inexpressible(path, "it may be left out, and nothing says what it is then")
        value = schema["default"]
        member = self._member(schema, value)
        if member is not None:
            return f"default={member}"
        inner = written[len(container) :]
        holds_others = "$ref" in literal(schema) or "tuple[" in inner or "set[" in inner
        if isinstance(value, list | dict) and value and holds_others:
            raise Inexpressible(path, f"its default, {literal(value)}, is more than plain JSON")
        return f"default={self._plain_default(path, written, value)}"

    def _member(self, schema: Schema, value: Any) -> str | None:
        """Of an enum that the field may hold."""
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
            raise Inexpressible(path, f"its default, {literal(value)}, is no {written}")
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
            raise Inexpressible(path, "two of its choices would have the same name")
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
    """What pydantic makes of the name of a field."""
    return name.title().replace("_", " ").strip()


def _documented(schema: Schema) -> Iterator[str]:
    said = schema.get("description")
    if not isinstance(said, str):
        return
    if '"' in said or "\\" in said or not said.isprintable():
        yield wrapped(f"__doc__ = {long_text(said)}", 1) + "\n"
    else:
        yield f'    """{said}"""' + "\n"
