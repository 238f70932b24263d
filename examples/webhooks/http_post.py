"""Sends a POST request with the standard library."""

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
    """Does not follow redirects: a webhook goes only to the URL that its owner gave."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.netloc, timeout=TIMEOUT)
    try:
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        connection.request("POST", target, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers.get("Retry-After"))
    finally:
        connection.close()
