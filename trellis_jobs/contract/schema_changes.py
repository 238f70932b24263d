"""Whether a JSON Schema still accepts everything that another one accepted.

It says so only where it is sure. A keyword that it does not know and that has changed may mean
anything, so it counts as a reason why values might be refused. Values are taken to be what our own
code wrote: fields that the old schema did not declare are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

SAYS_NOTHING: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$defs"}
)
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
        self._old_definitions: Schema = old.get("$defs", {})
        self._new_definitions: Schema = new.get("$defs", {})
        self._under_way: set[tuple[str, str]] = set()

    def of(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        both = (str(old.get("$ref", "")), str(new.get("$ref", "")))
        if any(both):
            if both in self._under_way:
                return  # a schema that contains itself: what is asked here is being answered
            self._under_way.add(both)
            yield from self.of(path, self._old(old), self._new(new))
            self._under_way.discard(both)
            return
        branches = _branches(old), _branches(new)
        if branches != (None, None):
            yield from self._of_branches(path, *(branches[0] or [old], branches[1] or [new]))
            return
        yield from self._of_one(path, _with_choices(old), _with_choices(new))

    def _old(self, schema: Schema) -> Schema:
        return _resolved(schema, self._old_definitions)

    def _new(self, schema: Schema) -> Schema:
        return _resolved(schema, self._new_definitions)

    def _of_branches(self, path: str, old: list[Schema], new: list[Schema]) -> Iterator[Narrowing]:
        """Each that was possible must fit one that is possible now."""
        for was in old:
            least = min((list(self.of(path, was, now)) for now in new), key=len)
            yield from least

    def _of_one(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        gone = _types(old) - _types(new)
        if gone and not (gone == {"integer"} and "number" in _types(new)):
            yield Narrowing(path, f"may be {', '.join(sorted(gone))} no more")
        for keyword in sorted((old.keys() | new.keys()) - SAYS_NOTHING - {"type"}):
            was, now = old.get(keyword), new.get(keyword)
            if was == now and not isinstance(was, dict | list):
                continue
            judge = _JUDGES.get(keyword)
            if judge is not None:
                yield from (Narrowing(path, why) for why in judge(was, now))
            elif keyword in _NESTED:
                yield from _NESTED[keyword](self, path, old, new)
            elif was != now:
                yield Narrowing(path, f"{keyword} has changed")

    def properties(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("properties", {}), new.get("properties", {})
        other_old, other_new = old.get("additionalProperties"), new.get("additionalProperties")
        for name in sorted(was.keys() | now.keys()):
            before, after = was.get(name, other_old), now.get(name, other_new)
            if name in was and after is False:
                yield Narrowing(f"{path}/{name}", "is not allowed any more")
            elif isinstance(before, Mapping) and isinstance(after, Mapping):
                yield from self.of(f"{path}/{name}", before, after)

    def items(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        yield from self.of(f"{path}/*", old.get("items", {}), new.get("items", {}))

    def additional(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if now is True or was is False or was == now:
            return
        if isinstance(now, dict):
            yield from self.of(f"{path}/*", {} if was is True else was, now)
        else:
            yield Narrowing(path, "other fields are not allowed any more")


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    name = str(reference).rsplit("/", 1)[-1]
    found: Schema = definitions.get(name, {f"what {name} is": "nowhere said"})
    beside = {name: value for name, value in schema.items() if name != "$ref"}
    return {**found, **beside}


def _branches(schema: Schema) -> list[Schema] | None:
    """Alternatives, each with what stands beside them; several types are alternatives too."""
    for word in ("anyOf", "oneOf"):
        if word in schema:
            beside = {n: v for n, v in schema.items() if n != word and n not in SAYS_NOTHING}
            return [{**beside, **branch} for branch in schema[word]]
    return None


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
    "items": _Comparison.items,
    "additionalProperties": _Comparison.additional,
}
