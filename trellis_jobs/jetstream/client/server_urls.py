"""Server URLs: one, or several separated by commas."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from trellis_jobs.errors import Unreachable

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_ENCRYPTED: Final = frozenset({"tls", "wss"})


def parse_server_urls(servers: str) -> list[str]:
    """Raises Unreachable for a malformed URL, without quoting it: it may contain a password."""
    urls = [server.strip() for server in servers.split(",")]
    if not all(map(_is_valid, urls)):
        raise Unreachable(
            servers or "''",
            "this is not valid: a URL is nats://host:port or nats://user:password@host:port; "
            "separate several by commas, and do not use / ? # , in a password",
        )
    return urls


def are_loopback(servers: str) -> bool:
    """Returns whether all hosts are loopback addresses, so that the servers run on this machine."""
    return all(_is_loopback(_split(url).hostname or "") for url in parse_server_urls(servers))


def any_encrypted(servers: str) -> bool:
    """Returns whether the scheme of any URL requires TLS."""
    return any(_split(server.strip()).scheme in _ENCRYPTED for server in servers.split(","))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _split(server: str) -> SplitResult:
    return urlsplit(server if "://" in server else f"nats://{server}")


def _is_valid(server: str) -> bool:
    try:
        parts = _split(server)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
