"""What a page of jobs shows, as its address says it: the filter, and which page. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from jobs_admin.api.filter_text import FilterTextError, format_filter, parse_filter
from jobs_admin.api.views.jobs import JobCursor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_admin.api.job_filter import JobFilter
    from trellis_jobs.model.states import JobState

_BARE_ID: Final = re.compile(r"[\w-]{1,128}", re.ASCII)
_CURSOR: Final = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# Of how many pages an address remembers where they began, for the way back.
_MAX_PAGES: Final = 40


@dataclass(frozen=True, slots=True)
class FilterText:
    """`filter` is None if the text is not a filter; then `error` says why, and what is allowed."""

    text: str
    filter: JobFilter | None
    error: str | None = None

    @property
    def command(self) -> str:
        """The command that lists the same jobs."""
        return " ".join(
            ["trellis-jobs jobs list", *([shlex.quote(self.text)] if self.text else [])]
        )


def read_filter_text(text: str, now: datetime) -> FilterText:
    stripped = " ".join(text.split()) if '"' not in text else text.strip()
    try:
        return FilterText(stripped, parse_filter(stripped, now))
    except FilterTextError as error:
        return FilterText(stripped, None, str(error))


def bare_id(text: str) -> str | None:
    """Return the text if it may be a job's id, or the beginning of one, and no filter."""
    stripped = text.strip()
    return stripped if _BARE_ID.fullmatch(stripped) else None


def with_state(text: str, state: JobState | None) -> str:
    """The text of the filter with another state, or without one. Other words stay as they are."""
    words = [word for word in _words(text) if not word.startswith("state:")]
    return " ".join([*([] if state is None else [f"state:{state.value}"]), *words])


def _words(text: str) -> list[str]:
    return re.findall(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+', text)


def write_cursor(cursor: JobCursor) -> str:
    return f"{(cursor.created_at - _EPOCH) // _MICROSECOND}.{cursor.first_seq}"


def read_cursor(text: str) -> JobCursor | None:
    """Return None for text that is no cursor: then the list begins with the newest job."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        return None
    try:
        created_at = _EPOCH + int(found[1]) * _MICROSECOND
    except OverflowError:
        return None
    return JobCursor(created_at=created_at, first_seq=int(found[2]))


@dataclass(frozen=True, slots=True)
class ListPlace:
    """`begins` are the cursors of the pages up to this one; the first page has none."""

    path: str
    text: str
    begins: tuple[str, ...] = ()

    @property
    def cursor(self) -> JobCursor | None:
        return read_cursor(self.begins[-1]) if self.begins else None

    @property
    def newest(self) -> str:
        return self._address(())

    @property
    def newer(self) -> str | None:
        """Return None on the first page."""
        return self._address(self.begins[:-1]) if self.begins else None

    def older(self, following: JobCursor | None) -> str | None:
        """Return None on the last page."""
        if following is None:
            return None
        return self._address((*self.begins, write_cursor(following))[-_MAX_PAGES:])

    def _address(self, begins: Sequence[str]) -> str:
        fields = [("q", self.text)] if self.text else []
        query = urlencode([*fields, *(("before", begin) for begin in begins)])
        return f"{self.path}?{query}" if query else self.path


def fixed_text(job_filter: JobFilter) -> str:
    """The text of a filter that does not change with time: `since:2h` becomes a moment."""
    return format_filter(job_filter)
