"""Replace secrets in payloads, results and texts before they are shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trellis_jobs.model.json_values import Json

REDACTED: Final = "[secret]"
# In a secret pointer, it matches every item of a list and every member of an object.
EACH: Final = "*"
# Shorter values occur in nearly every text, so replacing them would hide unrelated characters.
SHORTEST_SCRUBBED: Final = 3


def redacted(value: Json, secrets: Iterable[str]) -> Json:
    """Replace the secret fields. `secrets` are JSON Pointers; `*` matches every item or member."""
    for pointer in secrets:
        value = _without(value, pointer.split("/")[1:])
    return value


def redacted_places(value: Json, secrets: Iterable[str]) -> tuple[str, ...]:
    """JSON Pointers to the values that were replaced by `[secret]`."""
    found = (
        place
        for pointer in secrets
        for place, member in _members_at(value, pointer.split("/")[1:], "")
        if member == REDACTED
    )
    return tuple(dict.fromkeys(found))


def with_value_at(value: Json, pointer: str, replacement: Json) -> Json:
    """The value with another one at an existing place."""
    steps = pointer.split("/")[1:]
    if not steps:
        return replacement
    name, rest = _unescaped(steps[0]), "".join(f"/{step}" for step in steps[1:])
    if isinstance(value, dict) and name in value:
        return {**value, name: with_value_at(value[name], rest, replacement)}
    if isinstance(value, list):
        return [
            with_value_at(item, rest, replacement) if str(index) == name else item
            for index, item in enumerate(value)
        ]
    return value


def is_secret(pointer: str, secrets: Iterable[str]) -> bool:
    """Whether a JSON Pointer points to a secret field, or into one."""
    steps = pointer.split("/")
    return any(_leads_to(secret.split("/"), steps) for secret in secrets)


def secrets_below(pointer: str, secrets: Iterable[str]) -> tuple[str, ...]:
    """The secret pointers as seen from the value at a pointer; "" if all of it is secret."""
    steps = pointer.split("/")
    paths = [secret.split("/") for secret in secrets]
    return tuple(
        "".join(f"/{step}" for step in path[len(steps) :])
        for path in paths
        if _leads_to(path[: len(steps)], steps)
    )


def secret_texts(value: Json, secrets: Iterable[str]) -> tuple[str, ...]:
    """The secret strings and numbers in a value, as texts, longest first."""
    found = {text for pointer in secrets for text in _texts_at(value, pointer.split("/")[1:])}
    return tuple(sorted((text for text in found if len(text) >= SHORTEST_SCRUBBED), key=_longest))


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Replace secret texts in a text, also where `repr` or JSON has escaped them."""
    for secret in secrets:
        for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
            text = text.replace(form, REDACTED)
    return text


def _longest(text: str) -> tuple[int, str]:
    return -len(text), text


def _leads_to(secret: Sequence[str], steps: Sequence[str]) -> bool:
    return len(secret) <= len(steps) and all(
        step in (EACH, taken) for step, taken in zip(secret, steps, strict=False)
    )


def _without(value: Json, path: Sequence[str]) -> Json:
    if not path:
        return value if value is None else REDACTED
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        name = _unescaped(step)
        return {
            key: _without(member, rest) if step == EACH or key == name else member
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [
            _without(item, rest) if step in (EACH, str(index)) else item
            for index, item in enumerate(value)
        ]
    return value


def _members_at(value: Json, path: Sequence[str], place: str) -> Iterator[tuple[str, Json]]:
    if not path:
        yield place, value
        return
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        name = _unescaped(step)
        members: list[tuple[str, Json]] = [
            (_escaped(key), each) for key, each in value.items() if step == EACH or key == name
        ]
    elif isinstance(value, list):
        members = [
            (str(index), each) for index, each in enumerate(value) if step in (EACH, str(index))
        ]
    else:
        return
    for key, member in members:
        yield from _members_at(member, rest, f"{place}/{key}")


def _texts_at(value: Json, path: Sequence[str]) -> Iterator[str]:
    for _, member in _members_at(value, path, ""):
        yield from _texts_in(member)


def _texts_in(value: Json) -> Iterator[str]:
    """All texts in a secret value; in an object the names are secret too."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from _texts_in(member)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
