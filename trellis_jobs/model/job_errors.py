"""Errors of attempts, as stored in the log."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime

MESSAGE_LIMIT: Final = 4_000
TRACEBACK_LIMIT: Final = 8_000


class Interruption(StrEnum):
    """Error types that the runtime itself records. Other error types are exception class names."""

    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    VISIBILITY_TIMEOUT = "visibility_timeout"
    WORKER_DEATH = "worker_death"
    PAYLOAD_INVALID = "payload_invalid"
    RESULT_INVALID = "result_invalid"
    KEY_UNRESOLVABLE = "key_unresolvable"
    LEASE_OVER = "lease_over"
    WORK_LOST = "work_lost"
    OTHER_CONTRACT = "other_contract"
    DELIVERIES_EXHAUSTED = "deliveries_exhausted"
    SNOOZE = "snooze"
    SNOOZES_EXHAUSTED = "snoozes_exhausted"


class JobError(Value, frozen=True, kw_only=True):
    type: str
    message: str
    tries: int
    at: datetime
    traceback: str | None = None


def bounded(text: str, limit: int) -> str:
    """Shorten a text, keeping its beginning and its end, where tracebacks name the error."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
