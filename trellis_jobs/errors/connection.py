"""Errors about the connection: no server answers, it refuses the client, or it is lost."""

from __future__ import annotations

import re

from trellis_jobs.errors.base import JobsError
from trellis_jobs.errors.infrastructure import InfrastructureError

_CREDENTIALS = re.compile(r"^(\s*(?:[a-z][a-z0-9+.-]*:)?//)?.*@", re.DOTALL | re.IGNORECASE)


def without_secrets(servers: str) -> str:
    """Server addresses without user, password or token, so that they can be shown.

    A password may contain any characters, but the last @ of an address precedes its host.
    """
    return ",".join(_CREDENTIALS.sub(r"\1", server) for server in servers.split(","))


class NotConfirmed(JobsError):
    """`seconds` is the time waited, or None if the connection was closed."""

    def __init__(self, what: str, seconds: float | None, job_id: str | None = None) -> None:
        super().__init__(
            f"the connection was closed before the server confirmed {what}; "
            "a write may have been stored: check before you repeat it"
            if seconds is None
            else f"the server did not confirm {what} within {round(seconds, 2):g} s; "
            "a write may have been stored: check before you repeat it"
        )
        self.job_id = job_id


class NotAppended(NotConfirmed):
    """The alarm of a job was set, and then it was too late for the event."""

    def __init__(self, seconds: float) -> None:
        JobsError.__init__(
            self,
            f"the server took more than {seconds:g} s to set the alarm of the job, so nothing was "
            "appended to the log: repeat it",
        )
        self.job_id = None


class NoAnswer(NotConfirmed):
    """The admin runtime did not answer a read request, which is safe to repeat."""

    def __init__(self, what: str, seconds: float, *, is_connected: bool) -> None:
        JobsError.__init__(
            self,
            f"an admin runtime is running, but did not answer {what} within {seconds:g} s"
            if is_connected
            else f"the connection to the server was lost before {what} was answered: check that "
            "the server is running",
        )
        self.job_id = None


class Unreachable(InfrastructureError):
    def __init__(self, servers: str, reason: str) -> None:
        super().__init__(f"no NATS server answers at {without_secrets(servers)}: {reason}")
        self.servers = without_secrets(servers)


class CredentialsRefused(InfrastructureError):
    def __init__(self, servers: str) -> None:
        super().__init__(
            f"the NATS server at {without_secrets(servers)} refuses these credentials: "
            "check user and password in the URL, or the credentials file"
        )
        self.servers = without_secrets(servers)


class CredentialsUnusable(InfrastructureError):
    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file} cannot be used to connect: {why}")
        self.file = file


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
