"""The settings of the console, from flags and the environment, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from jobs_admin.console.auth.settings import SignInSettings
from jobs_admin.http.probes import LOOPBACK

DEFAULT_PORT: Final = 8099
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not listened on


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """`environment` is the name on the badge, such as `production`.

    `allowed_hosts` are further names under which browsers reach the console. Requests for other
    names are refused, because a page on another site could reach a loopback address under its own
    name (DNS rebinding). `sign_in` says how users sign in, if they have to.
    """

    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    environment: str = ""
    allowed_hosts: tuple[str, ...] = field(default=())
    sign_in: SignInSettings = field(default_factory=SignInSettings)

    @property
    def host_names(self) -> frozenset[str]:
        """The names under which browsers reach the console. A fixed address cannot be rebound."""
        fixed = () if self.host in _EVERY_ADDRESS else (self.host,)
        return LOOPBACK_NAMES | {each.lower() for each in (*fixed, *self.allowed_hosts)}

    def check(self) -> None:
        """Raises ConfigError if anyone on the network could use the console."""
        self.sign_in.check(self.host)
