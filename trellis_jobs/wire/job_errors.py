"""Errors of attempts ⇄ JSON."""

from __future__ import annotations

from typing import Any

from trellis_jobs.model.job_errors import JobError
from trellis_jobs.wire.fields import add_present, count, optional, required, timestamp


def to_json(error: JobError) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": error.type,
        "message": error.message,
        "tries": error.tries,
        "timestamp": error.at,
    }
    add_present(body, traceback=error.traceback)
    return body


def from_json(detail: dict[str, Any]) -> JobError:
    return JobError(
        type=required(detail, "type", str),
        message=required(detail, "message", str),
        tries=count(detail, "tries"),
        at=timestamp(detail, "timestamp"),
        traceback=optional(detail, "traceback", str),
    )


def text(error: JobError) -> str:
    """The error as one line, as the original runtimes write it."""
    return f"{error.type}: {error.message}"
