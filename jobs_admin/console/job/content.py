"""A payload or a result as text: formatted, cut if it is large, with the number of its secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.model.redaction import REDACTED

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_SHOWN: Final = 16_000


@dataclass(frozen=True, slots=True)
class Content:
    """`text` is the JSON, or its beginning if it is longer than `MAX_SHOWN` characters.

    It is empty if the value is too deep to be shown.
    """

    text: str
    size: int
    hidden: int
    is_too_deep: bool = False

    @property
    def is_cut(self) -> bool:
        return self.size > len(self.text)


def content_of(value: Any, secrets: Sequence[str] = ()) -> Content:
    """`secrets` are the paths whose values are redacted in `value`."""
    text = shown_json(value)
    if text is None:
        return Content("", 0, 0, is_too_deep=True)
    return Content(text[:MAX_SHOWN], len(text), _hidden(value) if secrets else 0)


def shown_json(value: Any) -> str | None:
    """Returns None if the value is nested too deeply for orjson, which writes 254 levels."""
    try:
        return json_text(value)
    except orjson.JSONEncodeError:
        return None


def json_text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()


def _hidden(value: Any) -> int:
    """How many values were replaced, level by level, because a value may be nested deeply."""
    found, level = 0, [value]
    while level:
        found += sum(each == REDACTED for each in level if isinstance(each, str))
        level = [
            member
            for each in level
            if isinstance(each, dict | list)
            for member in (each.values() if isinstance(each, dict) else each)
        ]
    return found
