"""Which fields of a type are secret: those whose JSON Schema says `writeOnly`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.redaction import EACH, is_secret

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_MARK: Final = "writeOnly"
_BRANCHES: Final = ("anyOf", "oneOf", "allOf")
_REST: Final = ("items", "additionalProperties")
_NAMED: Final = ("properties", "patternProperties", "$defs")
# Words of JSON Schema that quote a value, which may be a secret one.
_QUOTING: Final = frozenset({"default", "examples"})
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
# Definitions that refer to each other twice multiply: thirty of them would never be done with.
_MOST_PARTS: Final = 50_000


class Secret:
    """`Annotated[str, Secret()]`: used as it is, and never shown."""

    def __get_pydantic_json_schema__(
        self, core: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(core), _MARK: True}

    def __repr__(self) -> str:
        return "Secret()"


def secret_places(schema: Mapping[str, Any] | bool) -> tuple[str, ...]:
    """JSON Pointers; `*` stands for every item of a list, and every member of an object."""
    if isinstance(schema, bool):
        return ()
    search = _Search(schema.get("$defs", {}))
    return tuple(dict.fromkeys(search.of("", schema, ())))


def without_secret_values(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without the defaults and examples of its secrets, and of what holds them."""
    told: dict[str, Any] = _Search(schema.get("$defs", {})).without_values(schema)
    return told


class _Search:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._looked_at = 0

    def of(self, path: str, schema: Any, within: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(schema, Mapping):
            return
        self._looked_at += 1
        if self._looked_at > _MOST_PARTS:
            raise DeclarationError("the schema refers to itself too often for anybody to follow")
        if schema.get(_MARK) is True:
            yield path
            return
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self._of_definition(path, reference.rsplit("/", 1)[-1], within)
        for step, inner in _parts(schema):
            yield from self.of(f"{path}{step}", inner, within)

    def without_values(self, schema: Any) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        holds_secret = self._holds_any(schema, set())
        return {
            word: self._part_without_values(word, part)
            for word, part in schema.items()
            if not (holds_secret and word in _QUOTING and part not in _EMPTY)
        }

    def _part_without_values(self, word: str, part: Any) -> Any:
        if word in _NAMED:
            return {name: self.without_values(inner) for name, inner in part.items()}
        if word in (*_BRANCHES, "prefixItems"):
            return [self.without_values(inner) for inner in part]
        return self.without_values(part) if word in _REST else part

    def _of_definition(self, path: str, name: str, within: tuple[str, ...]) -> Iterator[str]:
        if name not in within:
            yield from self.of(path, self._definitions.get(name), (*within, name))
        elif self._holds_any(self._definitions.get(name), {name}):
            raise DeclarationError(
                f"{name} contains itself, and something secret: nobody could say where all of "
                "its secrets are"
            )

    def _holds_any(self, schema: Any, seen: set[str]) -> bool:
        """Anywhere in it, however deep."""
        if not isinstance(schema, Mapping):
            return False
        name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
        if name and name not in seen:
            seen.add(name)
            if self._holds_any(self._definitions.get(name), seen):
                return True
        inner = (part for _, part in _parts(schema))
        return schema.get(_MARK) is True or any(self._holds_any(part, seen) for part in inner)


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a schema is made of, and the step from a value to the part of it that it is about."""
    yield from (("", branch) for word in _BRANCHES for branch in schema.get(word, ()))
    for name, member in schema.get("properties", {}).items():
        yield f"/{_escaped(name)}", member
    yield from ((f"/{n}", item) for n, item in enumerate(schema.get("prefixItems", ())))
    every = (*schema.get("patternProperties", {}).values(), *map(schema.get, _REST))
    yield from ((f"/{EACH}", member) for member in every)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class SecretElsewhere(ValueError):
    """A value holds a secret where its type does not tell of one, so it would be shown."""


def with_secrets(shown: Any, held: Any, places: Sequence[str], path: str = "") -> Any:
    """JSON in which pydantic has masked its secrets, with their values; `held` has them.

    Raises SecretElsewhere for one that is in none of the places.
    """
    if hasattr(held, "get_secret_value"):
        if not is_secret(path, places):
            raise SecretElsewhere(f"{path or 'value'}: its type does not tell that this is secret")
        value = held.get_secret_value()
        return value.decode() if isinstance(value, bytes) else value
    if isinstance(shown, dict) and isinstance(held, Mapping):
        for key in held:
            with_secrets(None, key, (), path)
        pairs = zip(shown.items(), held.values(), strict=True)
        return {
            name: with_secrets(member, inner, places, f"{path}/{_escaped(name)}")
            for (name, member), inner in pairs
        }
    if isinstance(shown, list) and isinstance(held, Collection):
        return [
            with_secrets(item, inner, places, f"{path}/{index}")
            for index, (item, inner) in enumerate(zip(shown, held, strict=True))
        ]
    return shown
