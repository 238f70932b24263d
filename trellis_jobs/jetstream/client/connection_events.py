"""Callbacks of nats-py about a connection: errors, disconnects and reconnects."""

from __future__ import annotations

import logging
import re
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Final, Protocol

from nats.errors import UnexpectedEOF

from trellis_jobs.errors import CertificateRefused, CredentialsRefused, NotEncrypted, Unreachable
from trellis_jobs.jetstream.client.fast_client import NotEncryptedError

if TYPE_CHECKING:
    from trellis_jobs.errors import InfrastructureError

log = logging.getLogger(__name__)

_TIMED_OUT: Final = "it did not reply in time"
_SUBSCRIBE_DENIED: Final = re.compile(r'permissions violation for subscription to "([^"]+)"')
_PUBLISH_DENIED: Final = re.compile(r'permissions violation for publish(?:ing)? to "([^"]+)"')


class ObservedConnection(Protocol):
    """The part of a connection that its events change."""

    servers: str

    @property
    def is_connected(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    def publish_denied(self, subject: str, /) -> bool: ...

    def inbox_denied(self, subject: str, /) -> bool: ...

    def handle_disconnect(self) -> None: ...

    def handle_reconnect(self) -> None: ...


class ConnectionEvents:
    """Receives nats-py's callbacks; the first may come before the connection exists."""

    def __init__(self) -> None:
        self.connection: ObservedConnection | None = None
        self.last_error = ""
        self.refused = False
        self.is_plaintext = False
        self.certificate_error: str | None = None

    def connect_error(self, servers: str, error: Exception) -> InfrastructureError:
        if self.refused:
            return CredentialsRefused(servers)
        if self.is_plaintext:
            return NotEncrypted(servers)
        if self.certificate_error is not None:
            return CertificateRefused(servers, self.certificate_error)
        return Unreachable(servers, self.last_error or str(error) or _TIMED_OUT)

    async def error(self, error: Exception) -> None:
        default_text = _TIMED_OUT if isinstance(error, TimeoutError) else type(error).__name__
        self.last_error = str(error) or default_text
        self.refused = self.refused or "authorization" in self.last_error.lower()
        self.is_plaintext = self.is_plaintext or isinstance(error, NotEncryptedError)
        if isinstance(error, SSLCertVerificationError):
            self.certificate_error = error.verify_message
        publish_denied, subscribe_denied = (
            _PUBLISH_DENIED.search(str(error)),
            _SUBSCRIBE_DENIED.search(str(error)),
        )
        if self.connection is None or (
            publish_denied and self.connection.publish_denied(publish_denied[1])
        ):
            return
        if subscribe_denied and self.connection.inbox_denied(subscribe_denied[1]):
            return
        # disconnected() logs once why a connection ended; failed reconnects are not logged again.
        is_expected = isinstance(error, UnexpectedEOF) or not self.connection.is_connected
        level = logging.DEBUG if is_expected else logging.WARNING
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
            self.connection.handle_disconnect()

    async def reconnected(self) -> None:
        if self.connection is not None:
            # The same level as the disconnect, so that readers of that line also see this one.
            log.warning("reconnected to %s", self.connection.servers)
            self.last_error = ""
            self.connection.handle_reconnect()
