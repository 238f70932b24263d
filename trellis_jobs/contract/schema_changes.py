"""Whether a JSON Schema still accepts everything that another one accepted.

It says so only where it is sure. A keyword that it does not know and that has changed may mean
anything, so it counts as a reason why values might be refused. Values are taken to be what our own
code wrote: fields that the old schema did not declare are not there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

SAYS_NOTHING: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$defs"}
)
_CHOICES: Final = ("anyOf", "oneOf")
_ANYTHING: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Where values that were accepted may be refused, and why; `path` is of the value."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.why}"


def narrowings(old: Schema, new: Schema) -> list[Narrowing]:
    """Empty: whatever fitted the old schema fits the new one."""
    comparison = _Comparison(old, new)
    return list(dict.fromkeys(comparison.of("", old, new)))


class _Comparison:
    """Of two documents; references lead into each one's own definitions."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old_document, self._new_document = old, new
        self._answered: set[tuple[str, str]] = set()

    def of(self, path: str, old: Schema | bool, new: Schema | bool) -> Iterator[Narrowing]:
        was, now = _spelled_out(old), _spelled_out(new)
        if "$ref" in was or "$ref" in now:
            yield from self._of_references(path, was, now)
        elif _is_choice(was) or _is_choice(now):
            yield from self._of_branches(path, was, now)
        else:
            yield from self._of_one(path, _with_choices(was), _with_choices(now))

    def _of_references(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """A schema that contains itself asks again what is being answered: then it says yes."""
        asked = _text(old), _text(new)
        if asked in self._answered:
            return
        answered_before = set(self._answered)
        self._answered.add(asked)
        was, now = _resolved(old, self._old_document), _resolved(new, self._new_document)
        found = list(self.of(path, was, now))
        if found:
            # What was answered meanwhile may have relied on a yes to this.
            self._answered = answered_before
        yield from found

    def _of_branches(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Each that was possible must fit one that is possible now."""
        tag_was, tag = _tag(old), _tag(new)
        if tag is not None and tag != tag_was:
            yield Narrowing(path, f"{tag!r} must say which of them it is, which it did not")
        nothing = [Narrowing(path, "nothing fits any more")]
        for was in _branches(old):
            tried = (list(self.of(path, was, now)) for now in _branches(new))
            yield from min(tried, key=len, default=nothing)

    def _of_one(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        gone = _types(old) - _types(new)
        if gone and not (gone == {"integer"} and "number" in _types(new)):
            yield Narrowing(path, f"may be {', '.join(sorted(gone))} no more")
        keywords = sorted((old.keys() | new.keys()) - SAYS_NOTHING - {"type"})
        for keyword in keywords:
            was, now = old.get(keyword), new.get(keyword)
            if keyword in _JUDGES:
                yield from (Narrowing(path, why) for why in _JUDGES[keyword](was, now))
            elif keyword not in _NESTED and not self._is_same(was, now):
                yield Narrowing(path, f"{keyword} has changed")
        for nested in dict.fromkeys(_NESTED[word] for word in keywords if word in _NESTED):
            yield from nested(self, path, old, new)

    def _is_same(self, was: Any, now: Any) -> bool:
        """To the letter, and so is everything that it refers to."""
        return bool(was == now) and _reached(was, self._old_document) == _reached(
            now, self._new_document
        )

    def properties(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("properties", {}), new.get("properties", {})
        other_old, other_new = _others(old), new.get("additionalProperties", True)
        for name in sorted(was.keys() | now.keys()):
            after = now.get(name, other_new)
            if name not in was and other_old is None:
                continue
            if name in was and after is False:
                yield Narrowing(f"{path}/{name}", "is not allowed any more")
            else:
                yield from self.of(f"{path}/{name}", was.get(name, other_old), after)

    def names(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("propertyNames", True), new.get("propertyNames", True)
        yield from self.of(f"{path}/* (the name)", was, now)

    def patterns(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("patternProperties", {}), new.get("patternProperties", {})
        if was.keys() != now.keys():
            yield Narrowing(path, "other names of fields have rules")
        for pattern in sorted(was.keys() & now.keys()):
            yield from self.of(f"{path}/{pattern}", was[pattern], now[pattern])

    def additional(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if was is False:
            return
        if now is False:
            yield Narrowing(path, "other fields are not allowed any more")
        else:
            yield from self.of(f"{path}/*", was, now)

    def items(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Place by place, then the others, as far as lists could be that long."""
        places = max(len(schema.get("prefixItems", ())) for schema in (old, new))
        longest = old.get("maxItems", places + 1)
        for place in range(min(places, longest)):
            yield from self.of(f"{path}/{place}", _item(old, place), _item(new, place))
        if longest > places:
            yield from self.of(f"{path}/*", old.get("items", True), new.get("items", True))

    def conditions(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Each that must hold now must follow from one that held."""
        held = [_without(old, {"allOf"}), *old.get("allOf", ())]
        for now in new.get("allOf", ()):
            yield from min((list(self.of(path, was, now)) for was in held), key=len)


def _spelled_out(schema: Schema | bool) -> Schema:
    return schema if isinstance(schema, Mapping) else {} if schema else {"not": {}}


def _text(schema: Schema) -> str:
    return json.dumps(_without(schema, SAYS_NOTHING), sort_keys=True)


def _resolved(schema: Schema, document: Schema) -> Schema:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return _both(_found(str(reference), document), _without(schema, {"$ref"}))


def _found(reference: str, document: Schema) -> Schema:
    file, _, pointer = reference.partition("#")
    found: Any = None if file else document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    nowhere = {f"what {reference} is": "nowhere said"}
    return _spelled_out(found) if isinstance(found, Mapping | bool) else nowhere


def _reached(value: Any, document: Schema) -> dict[str, Schema]:
    """All that is referred to in it, and in what that refers to."""
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
                reached[reference] = _found(reference, document)
                waiting.append(reached[reference])
    return reached


def _is_choice(schema: Schema) -> bool:
    return any(word in schema for word in _CHOICES)


def _branches(schema: Schema) -> list[Schema]:
    """Alternatives, each with what stands beside them; several types are alternatives too."""
    for word in _CHOICES:
        if word in schema:
            beside = _without(schema, {word, "discriminator"})
            return [_both(_spelled_out(branch), beside) for branch in schema[word]]
    return [schema]


def _tag(schema: Schema) -> str | None:
    """The field that says which alternative it is; which there are, the alternatives say."""
    discriminator = schema.get("discriminator")
    return discriminator.get("propertyName") if isinstance(discriminator, Mapping) else None


def _both(one: Schema, other: Schema) -> Schema:
    """Kept apart: what they say may not be the same when it is read together."""
    if other.keys() <= SAYS_NOTHING:
        return one
    return {**one, "allOf": [*one.get("allOf", ()), other]}


def _without(schema: Schema, words: Set[str]) -> Schema:
    return {word: value for word, value in schema.items() if word not in words}


def _others(schema: Schema) -> Schema | bool | None:
    """What fields that it does not name could hold; None if there were none."""
    if "patternProperties" in schema or "properties" not in schema:
        return schema.get("additionalProperties") or True
    others: Schema | bool | None = schema.get("additionalProperties")
    return None if others is False else others


def _item(schema: Schema, place: int) -> Schema | bool:
    first = schema.get("prefixItems", ())
    found: Schema | bool = first[place] if place < len(first) else schema.get("items", True)
    return found


def _with_choices(schema: Schema) -> Schema:
    """A constant is a choice of one."""
    if "const" not in schema:
        return schema
    others = {name: value for name, value in schema.items() if name != "const"}
    return {**others, "enum": [schema["const"]]}


def _types(schema: Schema) -> frozenset[str]:
    said = schema.get("type")
    if said is None:
        return frozenset(map(_type_of, schema["enum"])) if "enum" in schema else _ANYTHING
    return frozenset([said] if isinstance(said, str) else said)


def _type_of(value: object) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def _at_most(what: str) -> Callable[[Any, Any], Iterator[str]]:
    """A bound from above: a lower one, or one where there was none, refuses more."""

    def judge(was: Any, now: Any) -> Iterator[str]:
        if now is not None and (was is None or now < was):
            yield f"{what} is at most {now}, was {'unlimited' if was is None else was}"

    return judge


def _at_least(what: str) -> Callable[[Any, Any], Iterator[str]]:
    def judge(was: Any, now: Any) -> Iterator[str]:
        if now is not None and (was is None or now > was):
            yield f"{what} is at least {now}, was {'unlimited' if was is None else was}"

    return judge


def _only_dropped(what: str) -> Callable[[Any, Any], Iterator[str]]:
    """A demand that may go, but neither come nor change."""

    def judge(was: Any, now: Any) -> Iterator[str]:
        if now is not None and now != was:
            yield f"{what} must be {now!r}, was {'anything' if was is None else repr(was)}"

    return judge


def _choices(was: Any, now: Any) -> Iterator[str]:
    if now is None:
        return
    gone = None if was is None else [value for value in was if value not in now]
    if gone is None:
        yield f"must be one of {now!r}, was anything"
    elif gone:
        yield f"may be {', '.join(map(repr, gone))} no more"


def _required(was: Any, now: Any) -> Iterator[str]:
    for name in now or ():
        if name not in (was or ()):
            yield f"needs {name!r}, which it did not"


_JUDGES: Final[Mapping[str, Callable[[Any, Any], Iterator[str]]]] = {
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
    "pattern": _only_dropped("the pattern"),
    "format": _only_dropped("the format"),
    "multipleOf": _only_dropped("the step"),
    "uniqueItems": _only_dropped("uniqueness"),
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
