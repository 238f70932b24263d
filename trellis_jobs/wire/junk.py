"""Recognize messages under the log's subjects that no version of ours can have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model import identity, subjects
from trellis_jobs.wire import headers as h
from trellis_jobs.wire import log
from trellis_jobs.wire.events import Undecodable
from trellis_jobs.wire.fields import BadField, loads

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_junk(subject: str, data: bytes, headers: Mapping[str, str]) -> bool:
    """False for events and heartbeats, including those that a newer version may have written.

    A newer version may write kinds and fields that this version cannot read. But its body is a
    JSON object that names the same job as the subject, and it never has the headers of a server's
    reply (design D21).
    """
    if not isinstance(log.read(subject, 0, data, headers), Undecodable):
        return False
    if h.is_server_reply(headers):
        return True
    try:
        body = loads(data)
    except BadField:
        return True
    return not _may_be_newer(subject.split("."), body)


def _may_be_newer(tokens: list[str], body: Mapping[str, object]) -> bool:
    match tokens:
        case ["trellis", "jobs", identity.PRESENCE_NAME, *about]:
            return len(about) == subjects.PRESENCE_TOKEN_COUNT
        case (
            ["trellis", "jobs", service, job_type, job_id, _]
            | ["trellis", "jobs", service, job_type, job_id, _, _]  # in a lane
        ):
            named = [body.get(name) for name in ("service", "jobType", "jobId")]
            return named == [service, job_type, job_id]
        case _:
            return False
