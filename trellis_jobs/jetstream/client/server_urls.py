"""Where servers are: one address, or several separated by commas."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from trellis_jobs.errors import Unreachable

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_ENCRYPTED: Final = frozenset({"tls", "wss"})


def parse_server_urls(servers: str) -> list[str]:
    """What is wrong with one is not quoted: it may be part of a password."""
    urls = [server.strip() for server in servers.split(",")]
    if not all(map(_is_valid, urls)):
        raise Unreachable(
            servers or "''",
            "an address reads nats://host:port or nats://user:password@host:port, several are "
            "separated by commas, and a password has none of / ? # ,",
        )
    return urls


def are_loopback(servers: str) -> bool:
    """By their names: nobody else can mean the same servers by these."""
    return all(_is_loopback(_split(url).hostname or "") for url in parse_server_urls(servers))


def any_encrypted(servers: str) -> bool:
    """Whether an address asks for TLS by its scheme."""
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
