"""Connects to the same servers as another user."""

from __future__ import annotations

from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.user_keys import is_seed


def as_other_user(options: ConnectOptions, given: str) -> ConnectOptions:
    """`given` is a URL with user and password, a credentials file or a seed file."""
    if "://" in given:
        return ConnectOptions(servers=given, tls=options.tls, tls_first=options.tls_first)
    credentials = {"nkey" if is_seed(given) else "credentials": given}
    return ConnectOptions(
        servers=options.servers, tls=options.tls, tls_first=options.tls_first, **credentials
    )
