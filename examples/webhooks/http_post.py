"""One POST with the standard library, and of its answer what matters here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

TIMEOUT = 10.0


@dataclass(frozen=True)
class Answer:
    status: int
    retry_after: str | None = None

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Follows no redirect: a webhook goes where its owner said, or nowhere."""
    there = urlsplit(url)
    kind = HTTPSConnection if there.scheme == "https" else HTTPConnection
    connection = kind(there.netloc, timeout=TIMEOUT)
    try:
        target = f"{there.path or '/'}{'?' if there.query else ''}{there.query}"
        connection.request("POST", target, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers.get("Retry-After"))
    finally:
        connection.close()
