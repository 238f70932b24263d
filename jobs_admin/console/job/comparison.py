"""Two runs side by side: what is the same, and what differs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.redaction import redacted_places
from trellis_jobs.model.timeline import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobs_admin.console.job.attempts import JobAttempt
    from jobs_admin.console.job.job_log import RunSpan
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Run

MAX_DIFFERENCES: Final = 200
MAX_LINES: Final = 300
_MAX_VALUE: Final = 200
_NOTICEABLE: Final = timedelta(milliseconds=100)
_MUCH_LONGER: Final = 1.5
_RUNS: Final = frozenset({Phase.RUNNING})
_PAUSES: Final = frozenset({Phase.BACKING_OFF, Phase.SNOOZED, Phase.DELAYED})
_WAITS: Final = frozenset({Phase.WAITING_FOR_WORKER, Phase.WAITING_FOR_KEY, Phase.WAITING})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSide:
    """One of two runs. `state` is how it ended, or the job's state if it is the newest run."""

    job: JobAddress
    number: int
    state: str
    run: Run
    spans: tuple[RunSpan, ...]
    attempts: tuple[JobAttempt, ...]


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A fact about both runs. Two times differ if one is much longer."""

    name: str
    a: str
    b: str
    differs: bool


@dataclass(frozen=True, slots=True)
class PathDifference:
    """`a` or `b` is None where the other payload alone has a value at `path`."""

    path: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class AlignedLine:
    a: str | None
    b: str | None

    @property
    def differs(self) -> bool:
        return self.a != self.b


@dataclass(frozen=True, slots=True)
class Comparison:
    """`payload` has at most `MAX_DIFFERENCES` entries, and `lines` come from `MAX_LINES` each.

    `hides_payload` and `hides_result`: a side has hidden secrets there, which may differ.
    """

    rows: tuple[ComparedRow, ...]
    payload: tuple[PathDifference, ...]
    result: tuple[PathDifference, ...]
    lines: tuple[AlignedLine, ...]
    hides_payload: bool
    hides_result: bool


def compare(a: RunSide, b: RunSide, now: datetime) -> Comparison:
    rows = tuple(
        _row(name, left, right)
        for (name, left), (_, right) in zip(_facts(a, now), _facts(b, now), strict=True)
    )
    return Comparison(
        rows,
        differences(a.run.payload, b.run.payload),
        differences(a.run.result, b.run.result),
        aligned(_lines(a), _lines(b)),
        any(redacted_places(each.run.payload, each.run.secrets) for each in (a, b)),
        any(redacted_places(each.run.result, each.run.result_secrets) for each in (a, b)),
    )


def differences(a: Any, b: Any) -> tuple[PathDifference, ...]:
    """The paths at which two JSON values differ, in their order."""
    found = []
    for each in _differing(a, b, ""):
        found.append(each)
        if len(found) == MAX_DIFFERENCES:
            break
    return tuple(found)


def aligned(a: Sequence[str], b: Sequence[str]) -> tuple[AlignedLine, ...]:
    """Equal lines beside each other; lines that only one side has beside nothing."""
    lines: list[AlignedLine] = []
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    for kind, begin_a, end_a, begin_b, end_b in matcher.get_opcodes():
        left, right = a[begin_a:end_a], b[begin_b:end_b]
        pairs = zip(left, right, strict=True) if kind == "equal" else zip_longest(left, right)
        lines.extend(AlignedLine(*pair) for pair in pairs)
    return tuple(lines)


def _row(name: str, a: str | timedelta, b: str | timedelta) -> ComparedRow:
    if isinstance(a, timedelta) and isinstance(b, timedelta):
        shorter, longer = sorted((a, b))
        differs = longer - shorter > _NOTICEABLE and longer > shorter * _MUCH_LONGER
        return ComparedRow(name, format_duration(a), format_duration(b), differs)
    return ComparedRow(name, str(a), str(b), a != b)


def _facts(side: RunSide, now: datetime) -> Iterator[tuple[str, str | timedelta]]:
    attempts = side.attempts
    yield "state", side.state
    yield "attempts", str(len(attempts))
    yield "waited", _total(side, now, _WAITS)
    yield "backoff, snoozes and delays", _total(side, now, _PAUSES)
    yield "ran", _total(side, now, _RUNS)
    yield "worker", _distinct(attempt.worker for attempt in attempts)
    yield "app version", _distinct(attempt.app_version for attempt in attempts)
    yield "errors", _errors(side)
    yield "payload version", str(side.run.version)
    yield "key", side.run.concurrency.key if side.run.concurrency else "–"


def _total(side: RunSide, now: datetime, phases: frozenset[Phase]) -> timedelta:
    lengths = (each.span.length(now) for each in side.spans if each.span.phase in phases)
    return sum(lengths, timedelta())


def _distinct(values: Iterator[str | None]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value)) or "–"


def _errors(side: RunSide) -> str:
    """`3× BankDown: 503`, the most recent kind last."""
    counts: dict[str, int] = {}
    for attempt in side.attempts:
        if attempt.error is not None and attempt.is_failure:
            text = f"{attempt.error.type}: {attempt.error.message}"
            counts[text] = counts.get(text, 0) + 1
    return "; ".join(f"{count}× {text}" for text, count in counts.items()) or "none"


def _lines(side: RunSide) -> list[str]:
    lines = [f"{line.level}: {line.message}" for attempt in side.attempts for line in attempt.lines]
    return lines[:MAX_LINES]


def _differing(a: Any, b: Any, path: str) -> Iterator[PathDifference]:
    """Compare by type too, because in Python `False == 0`, also within lists and objects."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in dict.fromkeys((*a, *b)):
            yield from _member(a, b, name, f"{path}.{name}" if path else str(name))
    elif isinstance(a, list) and isinstance(b, list):
        items_a, items_b = dict(enumerate(a)), dict(enumerate(b))
        for index in range(max(len(a), len(b))):
            yield from _member(items_a, items_b, index, f"{path}[{index}]")
    elif a != b or type(a) is not type(b):
        yield PathDifference(path or "(all)", _text(a), _text(b))


def _member(a: dict[Any, Any], b: dict[Any, Any], name: Any, path: str) -> Iterator[PathDifference]:
    if name not in a:
        yield PathDifference(path, None, _text(b[name]))
    elif name not in b:
        yield PathDifference(path, _text(a[name]), None)
    else:
        yield from _differing(a[name], b[name], path)


def _text(value: Any) -> str:
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"
