"""A screen of the console: its place in the navigation, and what answers its requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.responses import Response

# Takes a ConsoleRequest, which knows the table of screens and cannot be named here.
Answer: TypeAlias = Callable[[Any], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Screen:
    """`reads` answers GET by path, and `changes` POST. The navigation opens the first path.

    The navigation names the screens that have a `title`; `g` and then `key` opens one.
    """

    reads: dict[str, Answer]
    changes: dict[str, Answer] = field(default_factory=dict)
    title: str | None = None
    key: str | None = None

    @property
    def path(self) -> str:
        return next(iter(self.reads))
