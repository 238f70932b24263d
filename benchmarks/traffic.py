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

    sent: int
    received: int


class Traffic:
    """Reads the monitoring port that the server announces in its folder."""

    def __init__(self, store: Path) -> None:
        self._address = announced(store, "monitoring")

    def so_far(self, name: str) -> Messages:
        """Of all connections that ever had this name, once they are closed."""
        while self._connections(name, "open"):
            time.sleep(LOOK)
        closed = self._connections(name, "closed")
        return Messages(sum(c["in_msgs"] for c in closed), sum(c["out_msgs"] for c in closed))

    def of_open(self, name: str) -> Messages:
        """Of the connections that have this name now, so far."""
        found = self._connections(name, "open")
        return Messages(sum(c["in_msgs"] for c in found), sum(c["out_msgs"] for c in found))

    def server_version(self) -> str:
        return str(self._ask("/varz")["version"])

    def _connections(self, name: str, state: str) -> list[dict[str, Any]]:
        found = self._ask(f"/connz?state={state}&limit=10000")["connections"]
        return [connection for connection in found if connection.get("name") == name]

    def _ask(self, path: str) -> Any:
        return json.loads(fetch(self._address, path))


def announced(store: Path, door: str) -> str:
    """Host and port of a door, as the server that runs in this folder has told."""
    ports = json.loads(next(store.glob("*.ports")).read_text())
    return str(ports[door][0]).removeprefix("http://")


def fetch(address: str, path: str) -> bytes:
    peer = http.client.HTTPConnection(address)
    try:
        peer.request("GET", path)
        return peer.getresponse().read()
    finally:
        peer.close()
