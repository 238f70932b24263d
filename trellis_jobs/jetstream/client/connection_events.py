"""What nats-py reports about a connection: errors, losses and reconnects."""

from __future__ import annotations

import logging
import re
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Final, Protocol

from nats.errors import UnexpectedEOF

from trellis_jobs.errors import CredentialsRefused, Unreachable
from trellis_jobs.infrastructure_errors import CertificateRefused, NotEncrypted
from trellis_jobs.jetstream.client.fast_client import NotEncryptedError

if TYPE_CHECKING:
    from trellis_jobs.errors import InfrastructureError

log = logging.getLogger(__name__)

_LATE: Final = "it did not answer in time"
_DEAF: Final = re.compile(r'permissions violation for subscription to "([^"]+)"')
_DENIED: Final = re.compile(r'permissions violation for publish(?:ing)? to "([^"]+)"')


class Observed(Protocol):
    """The connection, as far as its events concern it."""

    servers: str

    @property
    def is_up(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    def denied(self, subject: str, /) -> bool: ...

    def deafened(self, subject: str, /) -> bool: ...

    def lost(self) -> None: ...

    def restored(self) -> None: ...


class ConnectionEvents:
    """Takes nats-py's callbacks; the connection exists only after the first of them may come."""

    def __init__(self) -> None:
        self.connection: Observed | None = None
        self.last_error = ""
        self.refused = False
        self.is_plaintext = False
        self.unverified: str | None = None

    def why_not_connected(self, servers: str, error: Exception) -> InfrastructureError:
        if self.refused:
            return CredentialsRefused(servers)
        if self.is_plaintext:
            return NotEncrypted(servers)
        if self.unverified is not None:
            return CertificateRefused(servers, self.unverified)
        return Unreachable(servers, self.last_error or str(error) or _LATE)

    async def error(self, error: Exception) -> None:
        late = _LATE if isinstance(error, TimeoutError) else type(error).__name__
        self.last_error = str(error) or late
        self.refused = self.refused or "authorization" in self.last_error.lower()
        self.is_plaintext = self.is_plaintext or isinstance(error, NotEncryptedError)
        if isinstance(error, SSLCertVerificationError):
            self.unverified = error.verify_message
        denied, deaf = _DENIED.search(str(error)), _DEAF.search(str(error))
        if self.connection is None or (denied and self.connection.denied(denied[1])):
            return
        if deaf and self.connection.deafened(deaf[1]):
            return
        # disconnected() logs why a connection ended, once for all attempts to reconnect that fail.
        is_known = isinstance(error, UnexpectedEOF) or not self.connection.is_up
        level = logging.DEBUG if is_known else logging.WARNING
        log.log(
            level,
            "connection to %s: %s",
            self.connection.servers,
            self.last_error,
            extra={"error": self.last_error},
        )

    async def disconnected(self) -> None:
        if self.connection is not None and not self.connection.is_closed:
            log.warning(
                "disconnected from %s: %s; reconnecting",
                self.connection.servers,
                self.last_error or "the server closed the connection",
                extra={"error": self.last_error},
            )
            self.connection.lost()

    async def reconnected(self) -> None:
        if self.connection is not None:
            # As loud as the loss: who heard of that waits for this.
            log.warning("reconnected to %s", self.connection.servers)
            self.last_error = ""
            self.connection.restored()
