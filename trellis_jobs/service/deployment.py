"""What tells the workers of one deployment of a service from others: its version and labels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.worker_record import DEFAULT_DEAD_AFTER, MAX_LABEL_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION_VARIABLE: Final = "TRELLIS_JOBS_APP_VERSION"
LABELS_VARIABLE: Final = "TRELLIS_JOBS_LABELS"
_MIN_DEAD_AFTER: Final = timedelta(seconds=1)
_MAX_LABELS: Final = 20


@dataclass(frozen=True, slots=True)
class Deployment:
    """`dead_after`: how long a worker may be silent before its jobs are started elsewhere."""

    version: str | None = None
    labels: tuple[str, ...] = ()
    dead_after: timedelta = DEFAULT_DEAD_AFTER


def deployment(
    version: str | None, labels: Iterable[str] | None, dead_after: float | timedelta | None
) -> Deployment:
    """What is not given in code comes from the environment. Raises DeclarationError."""
    version = version or os.environ.get(VERSION_VARIABLE) or None
    if labels is None:
        labels = filter(None, map(str.strip, os.environ.get(LABELS_VARIABLE, "").split(",")))
    elif isinstance(labels, str):
        raise DeclarationError(f"labels must be a list of texts: labels=[{labels!r}]")
    return Deployment(_text("version", version), _labels(labels), _duration(dead_after))


def _labels(labels: Iterable[str]) -> tuple[str, ...]:
    checked = tuple(dict.fromkeys(filter(None, (_text("a label", label) for label in labels))))
    if len(checked) > _MAX_LABELS:
        raise DeclarationError(f"a service has at most {_MAX_LABELS} labels, has {len(checked)}")
    return checked


def _text(what: str, text: object) -> str | None:
    if text is None:
        return None
    if isinstance(text, str) and text.isprintable() and len(text) <= MAX_LABEL_LENGTH:
        return text
    raise DeclarationError(
        f"{what} must be printable text of at most {MAX_LABEL_LENGTH} characters, is {text!r:.300}"
    )


def _duration(dead_after: float | timedelta | None) -> timedelta:
    if dead_after is None:
        return DEFAULT_DEAD_AFTER
    span = dead_after if isinstance(dead_after, timedelta) else timedelta(seconds=dead_after)
    if span < _MIN_DEAD_AFTER:
        raise DeclarationError(f"dead_after must be at least 1 second, is {span}")
    return span
