"""Completes the last word of a filter's text: which fields it may name, or which value. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from jobs_admin.api.filter_text import FIELDS, FilterTextError, parse_filter
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.suggestions import SuggestedField

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from jobs_admin.api.views.suggestions import SuggestionView

_LAST_WORD: Final = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*(?:"|$))*$')
_PLAIN: Final = re.compile(r'[^\s"]\S*')
_PAYLOAD: Final = f"{SuggestedField.PAYLOAD.value}."
_TIMES: Final = ("10m", "1h", "6h", "1d", "7d")
_ANY: Final = JobFilter()
_TIME_FIELDS: Final = frozenset({"since", "until"})


@dataclass(frozen=True, slots=True)
class FieldWord:
    """A word that does not have a colon yet."""

    prefix: str

    def completions(self) -> list[str]:
        names = [_PAYLOAD if name.startswith(_PAYLOAD) else f"{name}:" for name in FIELDS]
        return [name for name in names if name.startswith(self.prefix.lower())]


@dataclass(frozen=True, slots=True)
class ValueWord:
    """A field with the beginning of its value. `before` are values that precede it."""

    field: SuggestedField
    prefix: str
    before: str = ""
    within: JobFilter = _ANY

    def completions(self, found: Iterable[SuggestionView]) -> list[str]:
        if self.field is SuggestedField.PAYLOAD:
            return [f"{_PAYLOAD}{each.value}:" for each in found]
        return [f"{self.field.value}:{self.before}{_written(each.value)}" for each in found]


@dataclass(frozen=True, slots=True)
class KnownWord:
    """A word whose completions are always the same."""

    words: tuple[str, ...]


def last_word(text: str, now: datetime) -> FieldWord | ValueWord | KnownWord:
    """Read the word at the end of the text. The words before it restrict what fits."""
    found = _LAST_WORD.search(text)
    word = found[0] if found else ""
    name, colon, value = word.partition(":")
    if word.startswith(_PAYLOAD) and not colon:
        path = word.removeprefix(_PAYLOAD)
        within = _filter(text[: len(text) - len(word)], now)
        return ValueWord(SuggestedField.PAYLOAD, path, within=within)
    if not colon:
        return FieldWord(word)
    if name in _TIME_FIELDS:
        return KnownWord(
            tuple(f"{name}:{time}" for time in _TIMES if time.startswith(value) and time != value)
        )
    if name not in set(SuggestedField) - {SuggestedField.PAYLOAD}:
        return KnownWord(())
    before, comma, last = value.rpartition(",") if name == SuggestedField.STATE else ("", "", value)
    within = _filter(text[: len(text) - len(word)], now)
    return ValueWord(SuggestedField(name), last.lstrip('"'), f"{before}{comma}", within)


def _filter(text: str, now: datetime) -> JobFilter:
    """The other words; none of them if one is wrong."""
    try:
        return parse_filter(text, now)
    except FilterTextError:
        return JobFilter()


def _written(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else orjson.dumps(value).decode()
