"""Addresses of pages of the console. Names and keys of jobs may be any text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from jobs_admin.api.views.doctor import Subject

if TYPE_CHECKING:
    from jobs_admin.api.views.doctor import About

_PLAIN: Final = re.compile(r'[^\s"]+')
SYSTEM: Final = "/system"


def job_path(service: str, job_type: str, job_id: str) -> str:
    return f"/jobs/{_part(service)}/{_part(job_type)}/{_part(job_id)}"


def jobs_path(**words: str) -> str:
    """The list of jobs, filtered: `jobs_path(state="dead", type="shop/charge")`."""
    return f"/jobs?{urlencode({'q': _filter(words)})}"


def dead_path(service: str, job_type: str | None) -> str:
    words = {"service": service} if job_type is None else {"type": f"{service}/{job_type}"}
    return f"/dead?{urlencode({'q': _filter(words)})}"


def queue_path(service: str, job_type: str, **query: str) -> str:
    return _with_query(f"/queues/{_part(service)}/{_part(job_type)}", query)


def key_path(service: str, job_type: str, key: str) -> str:
    """`key` is the text of a key, or its hash. In the path, browsers would resolve `..`."""
    return _with_query(f"/keys/{_part(service)}/{_part(job_type)}", {"key": key})


def keys_path(**query: str) -> str:
    return _with_query("/keys", query)


def schedule_path(service: str, job_type: str, name: str) -> str:
    return f"/schedules/{_part(service)}/{_part(job_type)}/{_part(name)}"


def workers_path(**query: str) -> str:
    return _with_query("/workers", query)


def about_path(about: About | None) -> str:
    """The page that shows what a finding is about; findings about nothing else are the system's."""
    if about is None:
        return SYSTEM
    service, job_type, name = about.service, about.type, about.name
    match about.subject:
        case Subject.QUEUE if job_type:
            return queue_path(service, job_type)
        case Subject.KEY if job_type and name is not None:
            return key_path(service, job_type, name)
        case Subject.SCHEDULE if job_type and name:
            return schedule_path(service, job_type, name)
        case Subject.WORKER:
            return workers_path(service=service, **({"id": name} if name else {}))
        case Subject.DEAD_JOBS:
            return dead_path(service, job_type)
        case _:
            return SYSTEM


def _filter(words: dict[str, str]) -> str:
    return " ".join(f"{name}:{_value(value)}" for name, value in words.items())


def _value(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _part(text: str) -> str:
    return quote(text, safe="")


def _with_query(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
