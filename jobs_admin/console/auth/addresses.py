"""Addresses of clients: which of them are proxies, and who is behind one."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from jobs_admin.api.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_IPV6_PREFIX = 64


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> TrustedProxies:
        """Addresses and networks, such as `10.0.0.0/8`. Raises ConfigError."""
        try:
            return cls(tuple(ipaddress.ip_network(each, strict=False) for each in texts))
        except ValueError as error:
            raise ConfigError(f"--trusted-proxy: {error}") from None

    def trusts(self, peer: str) -> bool:
        address = _address(peer)
        return address is not None and any(address in network for network in self.networks)

    def client(self, peer: str, forwarded_for: str) -> str:
        """The client's address: the nearest one that is not a trusted proxy.

        What stands before it in X-Forwarded-For is what that client wrote, and does not count.
        """
        hops = [each.strip() for each in forwarded_for.split(",") if each.strip()]
        nearest = peer
        while hops and self.trusts(nearest):
            nearest = hops.pop()
        return nearest


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on the host."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def throttle_name(address: str) -> str:
    """One name for all addresses of a client: an IPv6 client usually has a whole /64."""
    found = _address(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
    return address


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
