"""How the admin runtime and what it depends on are doing."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import model_validator

from jobs_admin.api.views.shape import View, with_missing


class Mode(StrEnum):
    """`full` projects the log and looks after jobs; `rpc-only` answers from another's file."""

    FULL = "full"
    RPC_ONLY = "rpc-only"


class HealthStatus(StrEnum):
    OK = "ok"
    DEGRADED = "degraded"


class LoopState(StrEnum):
    """`recovering`: it runs again, but not for long enough to say that all is well."""

    RUNNING = "running"
    RECOVERING = "recovering"
    FAILING = "failing"


class StreamView(View):
    name: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    consumers: int


class RebuildView(View):
    """How many messages of the log are taken in, of how many."""

    messages: int
    of: int


class CheckView(View):
    """One thing that was looked at; which of the facts it has depends on what it is about.

    `projection`: position, last_seq, lag_events, lag_seconds, or rebuilding. `loop:<name>`: state,
    failures and the last of each. `server`: connected, version, lacks. `streams`: as named.
    `advisories`: backlog, oldest_seconds.
    """

    name: str
    status: HealthStatus
    error: str | None = None
    position: int | None = None
    last_seq: int | None = None
    lag_events: int | None = None
    lag_seconds: float | None = None
    rebuilding: RebuildView | None = None
    state: LoopState | None = None
    failures: int | None = None
    last_success: datetime | None = None
    last_error: str | None = None
    last_failure: datetime | None = None
    connected: bool | None = None
    version: str | None = None
    lacks: tuple[str, ...] = ()
    streams: tuple[StreamView, ...] = ()
    backlog: int | None = None
    oldest_seconds: float | None = None


class HealthView(View):
    """`version` is that of trellis-jobs; the oldest daemons do not tell it."""

    service: str
    status: HealthStatus
    timestamp: datetime
    mode: Mode
    checks: tuple[CheckView, ...]
    version: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, told: Any) -> Any:
        """The original says `healthy`, and nothing of its loops."""
        if isinstance(told, dict) and told.get("status") == "healthy":
            told = {**told, "status": HealthStatus.OK}
        return with_missing(told, mode=Mode.FULL, checks=())

    def check(self, name: str) -> CheckView | None:
        return next((check for check in self.checks if check.name == name), None)
