"""Values as they may be shown: without what is secret in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trellis_jobs.model.json_values import Json

REDACTED: Final = "[secret]"
# In a place of secrets it stands for every item of a list, and every member of an object.
EACH: Final = "*"


def redacted(value: Json, secrets: Iterable[str]) -> Json:
    """`secrets`: JSON Pointers, in which `*` stands for every item or member."""
    for place in secrets:
        value = _without(value, place.split("/")[1:])
    return value


def is_secret(place: str, secrets: Iterable[str]) -> bool:
    """Whether a place is one of the secret ones, or within one."""
    steps = place.split("/")
    return any(_leads_to(secret.split("/"), steps) for secret in secrets)


def _leads_to(secret: Sequence[str], steps: Sequence[str]) -> bool:
    return len(secret) <= len(steps) and all(
        step in (EACH, taken) for step, taken in zip(secret, steps, strict=False)
    )


def _without(value: Json, path: Sequence[str]) -> Json:
    if not path:
        return value if value is None else REDACTED
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        name = step.replace("~1", "/").replace("~0", "~")
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
