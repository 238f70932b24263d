"""A message as the server sent it; its headers are parsed on first use."""

from __future__ import annotations

from typing import Final

_FIRST_LINE: Final = len(b"NATS/1.0")
_STATUS: Final = "Status"
_DESCRIPTION: Final = "Description"


class Message:
    """All values of a repeated header are kept, one per line, so that added ones are noticed.

    A forged event (design D21) carries the server's reply headers twice when it is read by direct
    get: once forged, once real.
    """

    __slots__ = ("_headers", "block", "data", "reply", "subject")

    def __init__(
        self, subject: str, data: bytes = b"", reply: str = "", block: bytes = b""
    ) -> None:
        self.subject = subject
        self.reply = reply
        self.data = data
        self.block = block
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> dict[str, str]:
        if self._headers is None:
            self._headers = read_headers(self.block) if self.block else {}
        return self._headers

    @property
    def status(self) -> str | None:
        """The status that the server sent instead of a message; a client may have forged it."""
        return self.headers.get(_STATUS) if self.block else None


def read_headers(block: bytes) -> dict[str, str]:
    """Parses `NATS/1.0[ <status>[ <description>]]` and one line for each header."""
    first, *lines = block.decode("utf-8", "replace").split("\r\n")
    headers: dict[str, str] = {}
    status, _, description = first[_FIRST_LINE:].strip().partition(" ")
    if status.isdecimal():
        headers[_STATUS] = status
        if description:
            headers[_DESCRIPTION] = description
    for line in lines:
        name, found, value = line.partition(":")
        if found:
            name, value = name.strip(), value.strip()
            headers[name] = f"{headers[name]}\n{value}" if name in headers else value
    return headers
