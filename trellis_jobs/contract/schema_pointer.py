"""Check with a JSON Schema whether a JSON Pointer can point to a value usable in a key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})
_INDEX: Final = re.compile(r"0|[1-9][0-9]*")


def may_lead_to_scalar(schema: Any, pointer: str, *, is_closed: bool) -> bool:
    """False only if no valid value has a string, a number or a boolean at the pointer.

    `is_closed`: objects have only the declared properties unless additionalProperties is present.
    That holds for schemas of pydantic models; in JSON Schema itself such objects are open.
    """
    definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    return _Walk(definitions, is_closed).reaches(schema, steps, frozenset())


class _Walk:
    def __init__(self, definitions: Mapping[str, Any], is_closed: bool) -> None:
        self._definitions = definitions
        self._is_closed = is_closed

    def reaches(self, schema: Any, steps: Sequence[str], within: frozenset[str]) -> bool:
        """`within` has the definitions entered since the last step, to stop at recursion."""
        if not isinstance(schema, Mapping):
            return schema is not False
        return (
            self._through_reference(schema, steps, within)
            and self._through_branches(schema, steps, within)
            and (self._allows(schema, steps) if steps else _is_scalar(schema))
        )

    def _through_reference(
        self, schema: Mapping[str, Any], steps: Sequence[str], within: frozenset[str]
    ) -> bool:
        name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
        if not name or name in within or name not in self._definitions:
            return True
        return self.reaches(self._definitions[name], steps, within | {name})

    def _through_branches(
        self, schema: Mapping[str, Any], steps: Sequence[str], within: frozenset[str]
    ) -> bool:
        def each(word: str) -> Iterable[bool]:
            return (self.reaches(branch, steps, within) for branch in schema[word])

        return all(any(each(word)) for word in ("anyOf", "oneOf") if schema.get(word)) and (
            "allOf" not in schema or all(each("allOf"))
        )

    def _allows(self, schema: Mapping[str, Any], steps: Sequence[str]) -> bool:
        kinds = _kinds(schema)
        return ((not kinds or "object" in kinds) and self._allows_member(schema, steps)) or (
            (not kinds or "array" in kinds) and self._allows_item(schema, steps)
        )

    def _allows_member(self, schema: Mapping[str, Any], steps: Sequence[str]) -> bool:
        properties = schema.get("properties", {})
        if steps[0] in properties:
            return self.reaches(properties[steps[0]], steps[1:], frozenset())
        if "patternProperties" in schema:
            return True
        is_open = not (self._is_closed and "properties" in schema)
        return self.reaches(schema.get("additionalProperties", is_open), steps[1:], frozenset())

    def _allows_item(self, schema: Mapping[str, Any], steps: Sequence[str]) -> bool:
        if not _INDEX.fullmatch(steps[0]):
            return False
        first, index = schema.get("prefixItems", ()), int(steps[0])
        item = first[index] if index < len(first) else schema.get("items", True)
        return self.reaches(item, steps[1:], frozenset())


def _is_scalar(schema: Mapping[str, Any]) -> bool:
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return any(isinstance(value, str | int | float) for value in values)
    kinds = _kinds(schema)
    return not kinds or bool(kinds & _SCALARS)


def _kinds(schema: Mapping[str, Any]) -> frozenset[str]:
    """The declared types. Empty if the schema declares none."""
    named = schema.get("type", ())
    return frozenset([named] if isinstance(named, str) else named)
