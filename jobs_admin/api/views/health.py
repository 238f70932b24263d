"""The health of the admin runtime and of what it depends on."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, model_validator

from jobs_admin.api.views.base import View, with_defaults

# The name of the check that workers of one queue have the same contract.
CONTRACTS: Final = "contracts"


def _encodable(text: Any) -> Any:
    """Replace lone surrogates: an error may name a file whose name is not UTF-8."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


ErrorText = Annotated[str, BeforeValidator(_encodable)]


class Mode(StrEnum):
    """`full` projects the log and runs maintenance; `rpc-only` only reads another daemon's file."""

    FULL = "full"
    RPC_ONLY = "rpc-only"


class HealthStatus(StrEnum):
    OK = "ok"
    DEGRADED = "degraded"


class LoopState(StrEnum):
    """`recovering`: the loop runs again, but has not run long enough to count as healthy."""

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
    """How many messages of the log have been projected, and how many there are."""

    messages: int
    of: int


class CheckView(View):
    """The result of one check; which fields are set depends on the check.

    `projection`: position, last_seq, lag_events, lag_seconds, or rebuilding. `loop:<name>`: state,
    failures, last_success, last_error, last_failure. `server`: connected, version, lacks.
    `streams`: streams. `advisories`: backlog, oldest_seconds.
    """

    name: str
    status: HealthStatus
    error: ErrorText | None = None
    position: int | None = None
    last_seq: int | None = None
    lag_events: int | None = None
    lag_seconds: float | None = None
    rebuilding: RebuildView | None = None
    state: LoopState | None = None
    failures: int | None = None
    last_success: datetime | None = None
    last_error: ErrorText | None = None
    last_failure: datetime | None = None
    connected: bool | None = None
    version: str | None = None
    lacks: tuple[str, ...] = ()
    streams: tuple[StreamView, ...] = ()
    backlog: int | None = None
    oldest_seconds: float | None = None


class HealthView(View):
    """`version` is the version of trellis-jobs; old daemons do not send it."""

    service: str
    status: HealthStatus
    timestamp: datetime
    mode: Mode
    checks: tuple[CheckView, ...]
    version: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """The original runtime sends the status `healthy`, and no checks."""
        if isinstance(data, dict) and data.get("status") == "healthy":
            data = {**data, "status": HealthStatus.OK}
        return with_defaults(data, mode=Mode.FULL, checks=())

    def check(self, name: str) -> CheckView | None:
        return next((check for check in self.checks if check.name == name), None)
