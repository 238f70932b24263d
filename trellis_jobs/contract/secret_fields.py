"""Find the secret fields of a type: those that its JSON Schema marks as `writeOnly`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.redaction import EACH, is_secret

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_MARK: Final = "writeOnly"
_BRANCHES: Final = ("anyOf", "oneOf", "allOf")
_CHILDREN: Final = ("items", "additionalProperties")
_NAMED: Final = ("properties", "patternProperties", "$defs")
# JSON Schema keywords that contain values, which may be secret.
_QUOTING: Final = frozenset({"default", "examples"})
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
# Definitions that refer to each other twice double the work each time, so it must be limited.
_MAX_PARTS: Final = 50_000


class Secret:
    """Marks a field as secret, `Annotated[str, Secret()]`: handlers see it, operators do not."""

    def __get_pydantic_json_schema__(
        self, core: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(core), _MARK: True}

    def __repr__(self) -> str:
        return "Secret()"


def secret_pointers(schema: Mapping[str, Any] | bool) -> tuple[str, ...]:
    """JSON Pointers to the secret fields; `*` matches every item or member."""
    if isinstance(schema, bool):
        return ()
    search = _Search(schema.get("$defs", {}))
    return tuple(dict.fromkeys(search.pointers("", schema, ())))


def without_secret_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the defaults and examples of secrets and of values that contain them."""
    search = _Search(schema.get("$defs", {}))
    return cast("dict[str, Any]", search.without_values(schema))


class _Search:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._visited = 0

    def pointers(self, path: str, schema: Any, within: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(schema, Mapping):
            return
        self._visited += 1
        if self._visited > _MAX_PARTS:
            raise DeclarationError("the schema has too many nested references to find its secrets")
        if schema.get(_MARK) is True:
            yield path
            return
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self._pointers_in_definition(path, reference.rsplit("/", 1)[-1], within)
        for step, inner in _parts(schema):
            yield from self.pointers(f"{path}{step}", inner, within)

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
        return self.without_values(part) if word in _CHILDREN else part

    def _pointers_in_definition(
        self, path: str, name: str, within: tuple[str, ...]
    ) -> Iterator[str]:
        if name not in within:
            yield from self.pointers(path, self._definitions.get(name), (*within, name))
        elif self._holds_any(self._definitions.get(name), {name}):
            raise DeclarationError(
                f"{name} contains itself and a secret, so its secrets can be at any depth: mark "
                "the whole field as secret, or remove the recursion"
            )

    def _holds_any(self, schema: Any, seen: set[str]) -> bool:
        """Whether a schema contains a secret at any depth."""
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
    """The subschemas of a schema, each with the pointer step that leads to its values."""
    yield from (("", branch) for word in _BRANCHES for branch in schema.get(word, ()))
    for name, member in schema.get("properties", {}).items():
        yield f"/{_escaped(name)}", member
    yield from ((f"/{n}", item) for n, item in enumerate(schema.get("prefixItems", ())))
    every = (*schema.get("patternProperties", {}).values(), *map(schema.get, _CHILDREN))
    yield from ((f"/{EACH}", member) for member in every)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class UndeclaredSecret(ValueError):
    """A value has a secret in a field that its type does not mark as secret."""


def restore_secrets(shown: Any, held: Any, pointers: Sequence[str], path: str = "") -> Any:
    """Replace the masks that pydantic wrote by the secret values, which are in `held`.

    Raises UndeclaredSecret for a secret that is not at one of the pointers.
    """
    if hasattr(held, "get_secret_value"):
        if not is_secret(path, pointers):
            raise UndeclaredSecret(
                f"{path or 'value'}: this is secret, but its type does not declare it"
            )
        value = held.get_secret_value()
        return value.decode() if isinstance(value, bytes) else value
    if isinstance(shown, dict) and isinstance(held, Mapping):
        for key in held:
            restore_secrets(None, key, (), path)
        pairs = zip(shown.items(), held.values(), strict=True)
        return {
            name: restore_secrets(member, inner, pointers, f"{path}/{_escaped(name)}")
            for (name, member), inner in pairs
        }
    if isinstance(shown, list) and isinstance(held, Collection):
        return [
            restore_secrets(item, inner, pointers, f"{path}/{index}")
            for index, (item, inner) in enumerate(zip(shown, held, strict=True))
        ]
    return shown
