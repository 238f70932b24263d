"""Job filters as text: `state:dead type:shop/charge error:"503 from" payload.customer:c-9`.

A filter is a list of words with spaces between them. Each word is a field, a colon and a value. A
value with spaces, or one that begins with a quotation mark, is written as a JSON string. The value
of a payload field is a number or a boolean if it reads as one; in quotes it is text.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.api.job_filter import JobFilter, Scalar
from jobs_admin.api.time_text import format_moment, moment_before
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import check_token
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import tzinfo

_PAYLOAD: Final = "payload."
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_WORD: Final = re.compile(
    rf"(?P<field>(?:{re.escape(_PAYLOAD)}{_STRING})|[^\s:]*):(?P<value>{_STRING}(?!\S)|[^\s\"]\S*)?"
)
_ANY_WORD: Final = re.compile(r"\S+")
_PLAIN_VALUE: Final = re.compile(r'[^\s"]\S*')
_PLAIN_PATH: Final = re.compile(r'[^\s:"][^\s:]*')
_JOB: Final = re.compile(r"[\w-]+/[\w-]+/[\w-]+", re.ASCII)
_GROUP: Final = re.compile(r"[0-9a-f]{16}")
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_STATES: Final = ", ".join(JobState)


class FilterTextError(ValueError):
    """`word` is the part of the text that is wrong."""

    def __init__(self, word: str, problem: str) -> None:
        super().__init__(f"{word}: {problem}")
        self.word = word


# The fields whose value is one text: the name in a filter's text, and that in a JobFilter.
_TEXTS: Final = {
    "service": "service",
    "type": "type",
    "since": "since",
    "until": "until",
    "key": "key",
    "id": "id_prefix",
    "error": "error",
    "version": "app_version",
    "request": "request_id",
    "trace": "trace_id",
    "schedule": "schedule",
    "group": "error_group",
}
FIELDS: Final = ("state", *_TEXTS, "job", f"{_PAYLOAD}PATH")
_KNOWN: Final = frozenset({"state", "job", *_TEXTS})
_LISTED: Final = ", ".join(FIELDS)


def parse_filter(text: str, now: datetime, zone: tzinfo | None = UTC) -> JobFilter:
    """Read a filter. Times without an offset are in `zone`; None is that of this process.

    Raises FilterTextError, which names the word that is wrong and what is allowed there.
    """
    states: list[JobState] = []
    jobs: list[str] = []
    payload: dict[str, Scalar] = {}
    others: dict[str, Any] = {}
    for word, field, value in _words(text):
        if field == "state":
            states.extend(_states(word, value))
        elif field == "job":
            jobs.extend(_jobs(word, value))
        elif field.startswith(_PAYLOAD):
            _add(payload, word, _path(word, field), _scalar(word, value))
        else:
            for name, read in _read(word, field, _text(word, value), now, zone):
                _add(others, word, name, read)
    fields = {_TEXTS[name]: value for name, value in others.items()}
    return JobFilter(state=states or None, jobs=jobs or None, payload=payload or None, **fields)


def format_filter(job_filter: JobFilter) -> str:
    """Write a filter so that `parse_filter` reads the same filter. Times are written in UTC."""
    return " ".join(_written(job_filter))


def read_scalar(text: str) -> Scalar:
    """Read as JSON (17, true, "17"), unless that changes the spelling, as in 1.10."""
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if isinstance(read, str):
        return read
    keeps_spelling = isinstance(read, int | float) and orjson.dumps(read).decode() == text
    return read if keeps_spelling else text


def _words(text: str) -> Iterator[tuple[str, str, str]]:
    """Each word with its field and its value, which may be in quotes."""
    position = 0
    while (begin := _ANY_WORD.search(text, position)) is not None:
        word = _WORD.match(text, begin.start())
        if word is None or not word["field"]:
            raise FilterTextError(begin[0], f"write FIELD:VALUE; the fields are {_LISTED}")
        if word["field"] not in _KNOWN and not word["field"].startswith(_PAYLOAD):
            raise FilterTextError(
                begin[0], f"there is no field {word['field']!r}; the fields are {_LISTED}"
            )
        if word["value"] is None:
            is_quoted = text.startswith('"', word.end())
            problem = "a quotation mark is missing, or text follows it" if is_quoted else "no value"
            raise FilterTextError(
                begin[0],
                f'{problem}; write {word["field"]}:VALUE or {word["field"]}:"A VALUE WITH SPACES"',
            )
        yield word[0], word["field"], word["value"]
        position = word.end()


def _add(found: dict[str, Any], word: str, name: str, value: Any) -> None:
    if name in found:
        raise FilterTextError(word, f"the filter has {name} twice")
    found[name] = value


def _text(word: str, value: str) -> str:
    read = _string(word, value) if value.startswith('"') else value
    if not read:
        raise FilterTextError(word, "the value is empty")
    return read


def _scalar(word: str, value: str) -> Scalar:
    return _string(word, value) if value.startswith('"') else read_scalar(value)


def _string(word: str, quoted: str) -> str:
    try:
        return str(orjson.loads(quoted))
    except orjson.JSONDecodeError:
        raise FilterTextError(word, f"{quoted} is not a JSON string") from None


def _path(word: str, field: str) -> str:
    path = field.removeprefix(_PAYLOAD)
    if not path:
        raise FilterTextError(word, "name a field of the payload, as in payload.customer.id:17")
    return _text(word, path)


def _states(word: str, value: str) -> Iterator[JobState]:
    for name in value.split(","):
        if name not in set(JobState):
            raise FilterTextError(word, f"{name!r} is not a state; the states are {_STATES}")
        yield JobState(name)


def _jobs(word: str, value: str) -> Iterator[str]:
    for name in value.split(","):
        if _JOB.fullmatch(name) is None:
            raise FilterTextError(word, f"{name!r} is not SERVICE/TYPE/ID")
        yield name


def _read(
    word: str, field: str, value: str, now: datetime, zone: tzinfo | None
) -> Iterator[tuple[str, Any]]:
    """Yield the fields that a word sets, with their values: `type:shop/charge` sets two."""
    try:
        if field in {"since", "until"}:
            yield field, moment_before(value, now, zone)
        elif field == "type" and "/" in value:
            service, _, job_type = value.partition("/")
            yield "service", check_token("service", service)
            yield "type", check_token("type", job_type)
        else:
            check = _CHECKS.get(field)
            yield field, value if check is None else check(value)
    except (ValueError, InvalidToken) as error:
        raise FilterTextError(word, str(error)) from None


def _trace_id(text: str) -> str:
    if _TRACE_ID.fullmatch(text) is None:
        raise ValueError("a trace id has 32 digits from 0 to 9 and a to f")
    return text


def _group(text: str) -> str:
    if _GROUP.fullmatch(text) is None:
        raise ValueError("a group of errors has 16 digits from 0 to 9 and a to f")
    return text


def _token(what: str) -> Callable[[str], str]:
    return lambda text: check_token(what, text)


_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    "trace": _trace_id,
    "group": _group,
    **{field: _token(field) for field in ("service", "type", "id", "schedule")},
}


def _written(job_filter: JobFilter) -> Iterator[str]:
    for field, names in (("state", job_filter.state), ("job", job_filter.jobs)):
        if names:
            yield f"{field}:{','.join(names)}"
    for field, name in _TEXTS.items():
        value = getattr(job_filter, name)
        if field == "type" and value is not None and job_filter.service is not None:
            yield f"type:{job_filter.service}/{value}"
        elif field == "service" and job_filter.type is not None:
            continue
        elif isinstance(value, datetime):
            yield f"{field}:{format_moment(value)}"
        elif value is not None:
            yield f"{field}:{_quoted(value)}"
    yield from _written_payload(job_filter.payload or {})


def _written_payload(payload: Mapping[str, Scalar]) -> Iterator[str]:
    for path, scalar in payload.items():
        written = path if _PLAIN_PATH.fullmatch(path) else orjson.dumps(path).decode()
        yield f"{_PAYLOAD}{written}:{_written_scalar(scalar)}"


def _quoted(value: str) -> str:
    return value if _PLAIN_VALUE.fullmatch(value) else orjson.dumps(value).decode()


def _written_scalar(value: Scalar) -> str:
    """Text that reads as a number or a boolean is written in quotes."""
    is_plain = isinstance(value, str) and _PLAIN_VALUE.fullmatch(value)
    if is_plain and isinstance(read_scalar(str(value)), str):
        return str(value)
    return orjson.dumps(value).decode()
