"""Check whether a new JSON Schema accepts every value that the old one accepted.

The check is conservative: a changed keyword that it does not know counts as a narrowing. It assumes
that our own code wrote the values, so they have no fields that the old schema does not declare.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$defs"}
)
_CHOICES: Final = ("anyOf", "oneOf")
_ANYTHING: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A place (`path`) at which values that were accepted may be rejected, and why."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.why}"


def narrowings(old: Schema, new: Schema) -> list[Narrowing]:
    """Find narrowings. Empty if every value of the old schema is valid for the new one."""
    comparison = _Comparison(old, new)
    return list(dict.fromkeys(comparison.compare("", old, new)))


class _Comparison:
    """Compares two documents; references are resolved in the document they are in."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old_document, self._new_document = old, new
        self._compatible: set[tuple[str, str]] = set()

    def compare(self, path: str, old: Schema | bool, new: Schema | bool) -> Iterator[Narrowing]:
        was, now = _as_object(old), _as_object(new)
        if "$ref" in was or "$ref" in now:
            yield from self._of_references(path, was, now)
        elif _is_choice(was) or _is_choice(now):
            yield from self._of_branches(path, was, now)
        else:
            yield from self._of_one(path, _const_as_enum(was), _const_as_enum(now))

    def _of_references(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Recursive schemas: a pair whose comparison is in progress counts as compatible."""
        pair = _text(old), _text(new)
        if pair in self._compatible:
            return
        compatible_before = set(self._compatible)
        self._compatible.add(pair)
        was, now = (
            _resolve_reference(old, self._old_document),
            _resolve_reference(new, self._new_document),
        )
        found = list(self.compare(path, was, now))
        if found:
            # Results found in between may depend on the assumption that this pair is compatible.
            self._compatible = compatible_before
        yield from found

    def _of_branches(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Each old alternative must be accepted by one of the new alternatives."""
        tag_was, tag = _tag(old), _tag(new)
        if tag is not None and tag != tag_was:
            yield Narrowing(path, f"{tag!r} is now required to select the alternative")
        nothing = [Narrowing(path, "no value is accepted any more")]
        for was in _branches(old):
            tried = (list(self.compare(path, was, now)) for now in _branches(new))
            yield from min(tried, key=len, default=nothing)

    def _of_one(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        gone = _types(old) - _types(new)
        if gone and not (gone == {"integer"} and "number" in _types(new)):
            yield Narrowing(path, f"may no longer be {', '.join(sorted(gone))}")
        keywords = sorted((old.keys() | new.keys()) - ANNOTATIONS - {"type"})
        for keyword in keywords:
            was, now = old.get(keyword), new.get(keyword)
            if keyword in _COMPARE:
                yield from (Narrowing(path, why) for why in _COMPARE[keyword](was, now))
            elif keyword not in _NESTED and not self._is_same(was, now):
                yield Narrowing(path, f"{keyword} has changed")
        for nested in dict.fromkeys(_NESTED[word] for word in keywords if word in _NESTED):
            yield from nested(self, path, old, new)

    def _is_same(self, was: Any, now: Any) -> bool:
        """Whether two values are equal, including everything they refer to."""
        return bool(was == now) and _referenced(was, self._old_document) == _referenced(
            now, self._new_document
        )

    def properties(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("properties", {}), new.get("properties", {})
        other_old, other_new = _additional(old), new.get("additionalProperties", True)
        for name in sorted(was.keys() | now.keys()):
            after = now.get(name, other_new)
            if name not in was and other_old is None:
                continue
            if name in was and after is False:
                yield Narrowing(f"{path}/{name}", "is no longer allowed")
            else:
                yield from self.compare(f"{path}/{name}", was.get(name, other_old), after)

    def names(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("propertyNames", True), new.get("propertyNames", True)
        yield from self.compare(f"{path}/* (the name)", was, now)

    def patterns(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("patternProperties", {}), new.get("patternProperties", {})
        if was.keys() != now.keys():
            yield Narrowing(path, "patternProperties has other patterns")
        for pattern in sorted(was.keys() & now.keys()):
            yield from self.compare(f"{path}/{pattern}", was[pattern], now[pattern])

    def additional(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if was is False:
            return
        if now is False:
            yield Narrowing(path, "other fields are no longer allowed")
        else:
            yield from self.compare(f"{path}/*", was, now)

    def items(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Compare item by item, then the remaining items, up to the old maximum length."""
        count = max(len(schema.get("prefixItems", ())) for schema in (old, new))
        longest = old.get("maxItems", count + 1)
        for index in range(min(count, longest)):
            yield from self.compare(f"{path}/{index}", _item(old, index), _item(new, index))
        if longest > count:
            yield from self.compare(f"{path}/*", old.get("items", True), new.get("items", True))

    def conditions(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Each new condition must follow from an old one."""
        held = [_without(old, {"allOf"}), *old.get("allOf", ())]
        for now in new.get("allOf", ()):
            yield from min((list(self.compare(path, was, now)) for was in held), key=len)


def _as_object(schema: Schema | bool) -> Schema:
    return schema if isinstance(schema, Mapping) else {} if schema else {"not": {}}


def _text(schema: Schema) -> str:
    return json.dumps(_without(schema, ANNOTATIONS), sort_keys=True)


def _resolve_reference(schema: Schema, document: Schema) -> Schema:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return _combined(_resolve_pointer(str(reference), document), _without(schema, {"$ref"}))


def _resolve_pointer(reference: str, document: Schema) -> Schema:
    file, _, pointer = reference.partition("#")
    found: Any = None if file else document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    unresolved = {f"the definition of {reference}": "missing"}
    return _as_object(found) if isinstance(found, Mapping | bool) else unresolved


def _referenced(value: Any, document: Schema) -> dict[str, Schema]:
    """All definitions that a value refers to, directly or indirectly."""
    reached: dict[str, Schema] = {}
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            waiting += part.values()
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in reached:
                reached[reference] = _resolve_pointer(reference, document)
                waiting.append(reached[reference])
    return reached


def _is_choice(schema: Schema) -> bool:
    return any(word in schema for word in _CHOICES)


def _branches(schema: Schema) -> list[Schema]:
    """The alternatives of a schema, each combined with the keywords beside them."""
    for word in _CHOICES:
        if word in schema:
            beside = _without(schema, {word, "discriminator"})
            return [_combined(_as_object(branch), beside) for branch in schema[word]]
    return [schema]


def _tag(schema: Schema) -> str | None:
    """The discriminator field, or None."""
    discriminator = schema.get("discriminator")
    return discriminator.get("propertyName") if isinstance(discriminator, Mapping) else None


def _combined(one: Schema, other: Schema) -> Schema:
    """Combine with allOf, because keywords can interact if they are merged."""
    if other.keys() <= ANNOTATIONS:
        return one
    return {**one, "allOf": [*one.get("allOf", ()), other]}


def _without(schema: Schema, words: Set[str]) -> Schema:
    return {word: value for word, value in schema.items() if word not in words}


def _additional(schema: Schema) -> Schema | bool | None:
    """The schema of fields that are not declared. None if there are no such fields."""
    if "patternProperties" in schema or "properties" not in schema:
        return schema.get("additionalProperties") or True
    others: Schema | bool | None = schema.get("additionalProperties")
    return None if others is False else others


def _item(schema: Schema, index: int) -> Schema | bool:
    first = schema.get("prefixItems", ())
    found: Schema | bool = first[index] if index < len(first) else schema.get("items", True)
    return found


def _const_as_enum(schema: Schema) -> Schema:
    """Replace `const` by an `enum` with one value."""
    if "const" not in schema:
        return schema
    others = {name: value for name, value in schema.items() if name != "const"}
    return {**others, "enum": [schema["const"]]}


def _types(schema: Schema) -> frozenset[str]:
    types = schema.get("type")
    if types is None:
        return frozenset(map(_type_of, schema["enum"])) if "enum" in schema else _ANYTHING
    return frozenset([types] if isinstance(types, str) else types)


def _type_of(value: object) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def _at_most(what: str) -> Callable[[Any, Any], Iterator[str]]:
    """An upper bound: adding or lowering it is a narrowing."""

    def compare(was: Any, now: Any) -> Iterator[str]:
        if now is not None and (was is None or now < was):
            yield f"{what} is at most {now}, was {'unlimited' if was is None else was}"

    return compare


def _at_least(what: str) -> Callable[[Any, Any], Iterator[str]]:
    def compare(was: Any, now: Any) -> Iterator[str]:
        if now is not None and (was is None or now > was):
            yield f"{what} is at least {now}, was {'unlimited' if was is None else was}"

    return compare


def _must_not_change(what: str) -> Callable[[Any, Any], Iterator[str]]:
    """A keyword that may be removed, but not added or changed."""

    def compare(was: Any, now: Any) -> Iterator[str]:
        if now is not None and now != was:
            yield f"{what} must be {now!r}, was {'anything' if was is None else repr(was)}"

    return compare


def _choices(was: Any, now: Any) -> Iterator[str]:
    if now is None:
        return
    gone = None if was is None else [value for value in was if value not in now]
    if gone is None:
        yield f"must be one of {now!r}, was anything"
    elif gone:
        yield f"may no longer be {', '.join(map(repr, gone))}"


def _required(was: Any, now: Any) -> Iterator[str]:
    for name in now or ():
        if name not in (was or ()):
            yield f"now needs {name!r}"


_COMPARE: Final[Mapping[str, Callable[[Any, Any], Iterator[str]]]] = {
    "required": _required,
    "enum": _choices,
    "maximum": _at_most("the value"),
    "exclusiveMaximum": _at_most("the value"),
    "minimum": _at_least("the value"),
    "exclusiveMinimum": _at_least("the value"),
    "maxLength": _at_most("the length"),
    "minLength": _at_least("the length"),
    "maxItems": _at_most("the number of items"),
    "minItems": _at_least("the number of items"),
    "maxProperties": _at_most("the number of fields"),
    "minProperties": _at_least("the number of fields"),
    "pattern": _must_not_change("the pattern"),
    "format": _must_not_change("the format"),
    "multipleOf": _must_not_change("the step"),
    "uniqueItems": _must_not_change("uniqueness"),
}
_NESTED: Final[Mapping[str, Callable[[_Comparison, str, Schema, Schema], Iterator[Narrowing]]]] = {
    "properties": _Comparison.properties,
    "patternProperties": _Comparison.patterns,
    "propertyNames": _Comparison.names,
    "items": _Comparison.items,
    "prefixItems": _Comparison.items,
    "allOf": _Comparison.conditions,
    "additionalProperties": _Comparison.additional,
}
