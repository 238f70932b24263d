"""The settings of signing in, and whether a console may listen with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import ConfigError
from jobs_admin.console.auth.addresses import TrustedProxies, is_loopback

if TYPE_CHECKING:
    from pathlib import Path

USER_HEADER: Final = "X-Forwarded-User"
GROUPS_HEADER: Final = "X-Forwarded-Groups"


class SignInKind(StrEnum):
    """Passwords in the browser, bearer tokens of machines, or a proxy that signs users in."""

    BASIC = "basic"
    TOKEN = "token"  # noqa: S105 - the name of a way to sign in
    PROXY = "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInSettings:
    """`kinds` is empty where users do not sign in. `is_open` permits that on any address."""

    kinds: tuple[SignInKind, ...] = ()
    users: Path | None = None
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    user_header: str = USER_HEADER
    groups_header: str = GROUPS_HEADER
    is_open: bool = False

    def check(self, host: str) -> None:
        """Raises ConfigError if anyone on the network could use the console, or no user could."""
        if not self.kinds:
            if not is_loopback(host) and not self.is_open:
                raise ConfigError(
                    f"other machines reach {host}, and users need not sign in: add --auth basic, "
                    "token or proxy, or --no-auth if everyone who reaches it may use the console"
                )
            return
        if self.is_open:
            raise ConfigError("--no-auth and --auth exclude each other")
        if self.users is None:
            raise ConfigError(
                "--auth needs --users FILE, which says who has which role; `trellis-jobs console "
                "password NAME` writes a line of it"
            )
        if SignInKind.PROXY in self.kinds and not self.proxies.networks:
            raise ConfigError(
                "--auth proxy needs --trusted-proxy, the address or network of the proxy: "
                "without it, anyone could send its headers"
            )
