"""Errors about the server: its streams, permissions or features are not as required.

The message says what an operator has to change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from trellis_jobs.errors.base import JobsError

if TYPE_CHECKING:
    from collections.abc import Sequence


class InfrastructureError(JobsError):
    """The server, or its streams and permissions, are not as required."""


class InfrastructureMissing(InfrastructureError):
    _problem: ClassVar = "is missing"

    def __init__(self, what: str, remedy: str = "") -> None:
        default = "create it with `trellis-jobs infra apply` and credentials that may provision"
        super().__init__(f"{what} {self._problem}: {remedy or default}")
        self.what = what
        self.remedy = remedy


class StreamMissing(InfrastructureMissing):
    def __init__(self, stream: str, remedy: str = "") -> None:
        super().__init__(f"stream {stream}", remedy)
        self.stream = stream


class JetStreamNotReady(InfrastructureMissing):
    """JetStream may become ready soon, unless it is not enabled on the server."""

    _problem: ClassVar = "is not ready"


class InfrastructureMismatch(InfrastructureError):
    def __init__(self, what: str, differences: Sequence[str]) -> None:
        listed = "".join(f"\n  - {difference}" for difference in differences)
        super().__init__(
            f"{what} exists with settings that cannot be changed while jobs may be running:{listed}"
        )
        self.what = what
        self.differences = tuple(differences)


class ServiceMissing(InfrastructureError):
    def __init__(self, subject: str) -> None:
        super().__init__(
            f"no admin runtime answers {subject}: start one with `trellis-jobs admin serve`"
        )
        self.subject = subject


class NotPermitted(InfrastructureError):
    def __init__(self, subject: str, words: str = "") -> None:
        super().__init__(words or f"these credentials may not publish to {subject}")
        self.subject = subject


class InboxNotPermitted(NotPermitted):
    """Replies cannot be received, so no request can succeed."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            subject,
            f"these credentials may not subscribe to {subject}, where replies arrive: allow "
            "that, or set the prefix that is allowed (ConnectOptions.inbox_prefix, --inbox-prefix)",
        )


class RequestRefused(InfrastructureError):
    """JetStream refused a request; `code` is its error code."""

    def __init__(self, what: str, code: int, description: str) -> None:
        super().__init__(f"{what}: {description} ({code})")
        self.code = code
        self.description = description


class ServerTooOld(InfrastructureError):
    def __init__(self, feature: str, needs: str, has: str) -> None:
        super().__init__(f"{feature} needs nats-server {needs} or newer, this server is {has}")
        self.feature = feature


class StreamFull(InfrastructureError):
    """The server refused a message because a stream has reached a limit; nothing was stored.

    `limit` describes the limit, `code` is JetStream's error code.
    """

    def __init__(self, stream: str, limit: str, remedy: str, code: int) -> None:
        super().__init__(f"stream {stream} is full, nothing was stored: {limit} ({code}); {remedy}")
        self.stream = stream
        self.limit = limit
        self.code = code
