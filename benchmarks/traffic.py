"""How many messages a step took, by the server's own count."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MONITORED: Final = 'http: "127.0.0.1:-1"'
LOOK: Final = 0.01


@dataclass(frozen=True, slots=True)
class Messages:
    """As a client sees it."""

    connections: int
    sent: int
    received: int


class Traffic:
    """Reads the monitoring port that the server announces in its folder."""

    def __init__(self, store: Path) -> None:
        announced = json.loads(next(store.glob("*.ports")).read_text())
        self._address = announced["monitoring"][0].removeprefix("http://")

    def ended(self, name: str, *, at_least: int = 0) -> Messages:
        """Of all connections of this name that are closed, once there are that many."""
        while True:
            closed = [c for c in self._connections("closed") if c.get("name") == name]
            if len(closed) >= at_least:
                return Messages(
                    len(closed),
                    sum(c["in_msgs"] for c in closed),
                    sum(c["out_msgs"] for c in closed),
                )
            time.sleep(LOOK)

    def server_version(self) -> str:
        return str(self._ask("/varz")["version"])

    def _connections(self, state: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask(f"/connz?state={state}&limit=10000")["connections"]
        return found

    def _ask(self, path: str) -> Any:
        monitor = http.client.HTTPConnection(self._address)
        try:
            monitor.request("GET", path)
            return json.load(monitor.getresponse())
        finally:
            monitor.close()
