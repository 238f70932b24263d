"""The settings of the console, from flags and the environment, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from jobs_admin.http.probes import LOOPBACK

DEFAULT_PORT: Final = 8099


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """`environment` is the name on the badge, such as `production`.

    `allowed_hosts` are further names under which browsers reach the console. Requests for other
    names are refused, because a page on another site could reach a loopback address under its own
    name (DNS rebinding). `is_local` permits requests without a signed-in user.
    """

    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    environment: str = ""
    allowed_hosts: tuple[str, ...] = field(default=())
