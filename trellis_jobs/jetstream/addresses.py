"""Where servers are: one address, or several separated by commas."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from trellis_jobs.errors import Unreachable

_SCHEMES: Final = ("nats", "tls", "ws", "wss")


def addresses_in(servers: str) -> list[str]:
    """What is wrong with one is not quoted: it may be part of a password."""
    addresses = [server.strip() for server in servers.split(",")]
    if not all(map(_is_address, addresses)):
        raise Unreachable(
            servers or "''",
            "an address reads nats://host:port or nats://user:password@host:port, several are "
            "separated by commas, and a password has none of / ? # ,",
        )
    return addresses


def _is_address(server: str) -> bool:
    try:
        parts = urlsplit(server if "://" in server else f"nats://{server}")
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
