"""Write nats-server configuration as text with comments, or as plain JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_INDENT: Final = "  "
_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Commented:
    """Items of a list with a comment above them."""

    note: str
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """A value that the server reads from an environment variable.

    JSON configuration cannot express this. There it is written as an object that the server
    refuses, because a user without a password could be impersonated by anyone.
    """

    variable: str


def to_conf(settings: Mapping[str, Any]) -> str:
    return "\n".join(_members(settings)) + "\n"


def to_json(value: Any) -> Any:
    if isinstance(value, FromEnvironment):
        return {"environment": value.variable}
    if isinstance(value, dict):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [to_json(item) for each in value for item in _items(each)]
    return value


def _members(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        first, *rest = _lines(value)
        yield f"{_name(name)}: {first}"
        yield from rest


def _lines(value: Any) -> list[str]:
    if _is_short(value):
        return [_inline(value)]
    if isinstance(value, dict):
        return ["{", *_indented(list(_members(value))), "}"]
    return ["[", *_indented(list(_listed(value))), "]"]


def _listed(values: Sequence[Any]) -> Iterator[str]:
    for each in values:
        if isinstance(each, Commented):
            yield f"# {each.note}"
        for item in _items(each):
            yield from _lines(item)


def _items(each: Any) -> tuple[Any, ...]:
    return each.items if isinstance(each, Commented) else (each,)


def _is_short(value: Any) -> bool:
    """Whether a value fits on one line: scalars, and objects of scalars."""
    if isinstance(value, dict):
        return all(_is_short(each) and each != {} for each in value.values())
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value) and len(value) == 1
    return not isinstance(value, Commented)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return (
            f"{{ {', '.join(f'{_name(name)}: {_inline(each)}' for name, each in value.items())} }}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, FromEnvironment):
        return f"${value.variable}"
    return json.dumps(value)


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _indented(lines: list[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]
