"""Infrastructure errors whose message says what an operator has to change on the server.

InfrastructureError
├── NotEncrypted            a server offers no TLS where TLS is required
├── CertificateRefused      a server's certificate cannot be verified
├── StreamFull              a stream has reached a limit and stores no more messages
└── InfrastructureMissing
    └── JetStreamNotReady   JetStream does not answer, or its cluster has no leader yet
"""

from __future__ import annotations

from typing import ClassVar

from trellis_jobs.errors import InfrastructureError, InfrastructureMissing, without_secrets


class NotEncrypted(InfrastructureError):
    def __init__(self, servers: str) -> None:
        super().__init__(
            f"the NATS server at {without_secrets(servers)} offers no TLS, so no credentials were "
            "sent to it: enable TLS on the server. For an unencrypted connection, use an address "
            "that begins with nats:// and no TLS files"
        )
        self.servers = without_secrets(servers)


class CertificateRefused(InfrastructureError):
    def __init__(self, servers: str, reason: str) -> None:
        super().__init__(
            f"the certificate of the NATS server at {without_secrets(servers)} cannot be verified "
            f"({reason}), so no credentials were sent to it: set the CA certificate that issued it "
            "(--tlsca, NATS_CA, TlsFiles(ca=...)), and use an address that it is valid for"
        )
        self.servers = without_secrets(servers)


class StreamFull(InfrastructureError):
    """The server refused a message because a stream has reached a limit; nothing was stored.

    `limit` describes the limit, `code` is JetStream's error code.
    """

    def __init__(self, stream: str, limit: str, remedy: str, code: int) -> None:
        super().__init__(f"stream {stream} is full, nothing was stored: {limit} ({code}); {remedy}")
        self.stream = stream
        self.limit = limit
        self.code = code


class JetStreamNotReady(InfrastructureMissing):
    """JetStream may become ready soon, unless it is not enabled on the server."""

    _problem: ClassVar = "is not ready"
