"""Addresses of the servers, and the credentials and TLS settings to connect with."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from trellis_jobs.errors import (
    CredentialsUnusable,
    DeclarationError,
    InvalidToken,
    without_secrets,
)
from trellis_jobs.jetstream.client.seed_files import checked_credentials, checked_seed
from trellis_jobs.jetstream.client.server_urls import any_encrypted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"
API_PREFIX: Final = "$JS.API"
VARIABLES: Final = {
    "servers": "NATS_URL",
    "credentials": "NATS_CREDS",
    "nkey": "NATS_NKEY",
    "ca": "NATS_CA",
    "cert": "NATS_CERT",
    "key": "NATS_KEY",
    "tls_first": "NATS_TLS_FIRST",
    "inbox_prefix": "NATS_INBOX_PREFIX",
    "api_prefix": "NATS_API_PREFIX",
}
_TRUE: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_SUBJECT_PREFIX: Final = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """`ca` replaces the system's certificate authorities; the other two are the client's own."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            named = ", ".join(file for file in (self.ca, self.certificate, self.key) if file)
            raise CredentialsUnusable(named, str(error)) from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """`servers`: URLs, separated by commas; they may contain user and password, or a token.

    `credentials` is a credentials file, `nkey` a file with the seed of a user. Set `inbox_prefix`
    where permissions give each user its own inbox prefix, and `api_prefix` where JetStream belongs
    to another account or domain.

    With `tls`, `tls_first` or a URL that begins with tls:// or wss://, the client sends credentials
    only over an encrypted connection. `tls_first` starts TLS before the server has sent anything,
    for servers with `handshake_first`.
    """

    servers: str
    credentials: str | None = None
    nkey: str | None = None
    user: str | None = None
    password: str | None = None
    token: str | None = None
    tls: TlsFiles | None = None
    tls_first: bool = False
    inbox_prefix: str | None = None
    api_prefix: str = API_PREFIX

    def __post_init__(self) -> None:
        for name, prefix in (("inbox prefix", self.inbox_prefix), ("API prefix", self.api_prefix)):
            if prefix is not None and not _SUBJECT_PREFIX.fullmatch(prefix):
                reason = "it must be tokens joined by dots, without * and >"
                raise InvalidToken(name, prefix, reason)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ConnectOptions:
        """Reads the variables that the commands read, such as NATS_URL, NATS_NKEY and NATS_CA."""
        variables = os.environ if environment is None else environment
        given = {name: variables.get(variable) or None for name, variable in VARIABLES.items()}
        tls = TlsFiles(ca=given.pop("ca"), certificate=given.pop("cert"), key=given.pop("key"))
        return cls(
            servers=given.pop("servers") or DEFAULT_SERVER,
            api_prefix=given.pop("api_prefix") or API_PREFIX,
            tls=None if tls == TlsFiles() else tls,
            tls_first=_is_true(given.pop("tls_first")),
            **given,
        )

    def __str__(self) -> str:
        return without_secrets(self.servers)

    def __repr__(self) -> str:
        """Shows no secrets in logs and tracebacks: a URL may contain a password."""
        return f"ConnectOptions({self})"

    def with_inbox_prefix(self, inbox_prefix: str) -> ConnectOptions:
        """Returns these options with this inbox prefix, unless one is set already."""
        return replace(self, inbox_prefix=self.inbox_prefix or inbox_prefix)

    def identity(self) -> str:
        """Returns how the client identifies itself to the server, without any secret."""
        user, colon, _ = (
            urlsplit(self.servers.split(",")[0]).netloc.rpartition("@")[0].partition(":")
        )
        known = {
            f"credentials file {self.credentials}": self.credentials,
            f"nkey file {self.nkey}": self.nkey,
            f"user {self.user}": self.user,
            "a token": self.token or (user and not colon),
            f"user {user}": user,
            f"certificate {self.tls.certificate if self.tls else ''}": self.tls
            and self.tls.certificate,
        }
        return next((words for words, given in known.items() if given), "no credentials")

    @property
    def requires_encryption(self) -> bool:
        """One encrypted URL is enough, because every server gets the same credentials."""
        return self.tls is not None or self.tls_first or any_encrypted(self.servers)

    def client_options(self) -> dict[str, Any]:
        """Returns the arguments for nats-py; options that are not set keep its defaults."""
        options = {
            "user_credentials": _checked(checked_credentials, self.credentials),
            "nkeys_seed": _checked(checked_seed, self.nkey),
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "tls": None if self.tls is None else self.tls.context(),
            "tls_handshake_first": self.tls_first or None,
            "inbox_prefix": self.inbox_prefix,
        }
        return {name: value for name, value in options.items() if value is not None}


def _is_true(text: str | None) -> bool:
    """Reads a switch of the environment in the spellings that the commands accept."""
    return (text or "").strip().lower() in _TRUE


def _checked(check: Callable[[str], str], file: str | None) -> str | None:
    """Checks the file here: nats-py would report a missing file as an unreachable server."""
    return None if file is None else check(file)


def as_connect_options(
    servers: str | ConnectOptions, credentials: str | None = None
) -> ConnectOptions:
    """Accepts a URL with an optional credentials file, or complete options."""
    if isinstance(servers, ConnectOptions):
        return servers
    if not isinstance(servers, str):
        raise DeclarationError(
            "a server is given as text, as in 'nats://127.0.0.1:4222', or as ConnectOptions, "
            f"not as {type(servers).__name__}"
        )
    return ConnectOptions(servers=servers, credentials=credentials)
