"""Errors of the server side that name what an operator has to change there.

InfrastructureError
├── NotEncrypted            a server offers no TLS where we must use it
├── CertificateRefused      a server's certificate cannot be verified
├── StreamFull              a stream takes no more messages: a limit is reached
└── InfrastructureMissing
    └── JetStreamNotReady   JetStream does not answer, or its cluster has no leader yet
"""

from __future__ import annotations

from trellis_jobs.errors import InfrastructureError, InfrastructureMissing, without_secrets


class NotEncrypted(InfrastructureError):
    def __init__(self, servers: str) -> None:
        super().__init__(
            f"the NATS server at {without_secrets(servers)} offers no TLS, so no credentials were "
            "sent to it: enable TLS on the server; if an unencrypted connection is meant, use an "
            "address that begins with nats:// and give no TLS files"
        )
        self.servers = without_secrets(servers)


class CertificateRefused(InfrastructureError):
    def __init__(self, servers: str, reason: str) -> None:
        super().__init__(
            f"the certificate of the NATS server at {without_secrets(servers)} cannot be verified "
            f"({reason}), so no credentials were sent to it: give the certificate of the authority "
            "that issued it (--tlsca, NATS_CA, TlsFiles(ca=...)), and use an address that it names"
        )
        self.servers = without_secrets(servers)


class StreamFull(InfrastructureError):
    """The server refused a message for want of space; nothing was stored.

    `limit` says in words which limit is reached, `code` is JetStream's error code.
    """

    def __init__(self, stream: str, limit: str, remedy: str, code: int) -> None:
        super().__init__(f"stream {stream} is full, nothing was stored: {limit} ({code}); {remedy}")
        self.stream = stream
        self.limit = limit
        self.code = code


class JetStreamNotReady(InfrastructureMissing):
    """JetStream may answer in a moment, unless it is not enabled on the server at all."""
