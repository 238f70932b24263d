"""A stream in memory: it stores a message only if its guard holds, like the real server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.jetstream.client import api
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Stored:
    sequence: int
    subject: str
    data: bytes
    headers: Mapping[str, str]
    at: datetime

    @property
    def stored_ns(self) -> int:
        return (self.at - _EPOCH) // timedelta(microseconds=1) * 1000

    def has_expired(self, now: datetime) -> bool:
        """Whether the server would have removed the message after its TTL."""
        seconds = self.headers.get(h.TTL)
        return seconds is not None and now >= self.at + timedelta(seconds=int(seconds[:-1]))


class MemoryStream:
    """`captured` are its subjects, which end in `>`; `now` is the time of the server.

    `newest_only`: a message replaces the one before of its subject.
    """

    def __init__(
        self,
        name: str,
        *captured: str,
        now: Callable[[], datetime],
        newest_only: bool = False,
    ) -> None:
        self.name = name
        self._newest_only = newest_only
        self.messages: list[Stored] = []
        self._prefixes = tuple(pattern.removesuffix(">") for pattern in captured)
        self._now = now
        # Clients read the latest message of one subject, or of all subjects of one job.
        self._newest: dict[str, Stored] = {}
        self._newest_of_job: dict[str, Stored] = {}

    def captures(self, subject: str) -> bool:
        return subject.startswith(self._prefixes)

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Returns the server's answer: the sequence, or an error with the latest sequence."""
        guard = headers.get(h.EXPECTED_SEQUENCE)
        newest = self.newest(headers.get(h.EXPECTED_SUBJECT, subject))
        last = 0 if newest is None else newest.sequence
        if guard is not None and int(guard) != last:
            refusal = {
                "code": 400,
                "err_code": api.WRONG_LAST_SEQUENCE,
                "description": f"wrong last sequence: {last}",
            }
            return {"error": refusal}
        return {"stream": self.name, "seq": self.add(subject, data, headers).sequence}

    def add(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Stored:
        stored = Stored(len(self.messages) + 1, subject, data, headers, self._now())
        self.messages.append(stored)
        self._newest[subject] = self._newest_of_job[_of_job(subject)] = stored
        return stored

    def remove(self, stored: Stored) -> None:
        """Clients that read its subject find nothing, unless a newer message replaced it."""
        if self._newest.get(stored.subject) is stored:
            del self._newest[stored.subject]

    def pending(self, after: int, filter_subject: str) -> list[Stored]:
        """Returns the messages after a sequence."""
        found = [
            stored for stored in self.messages[after:] if matches(stored.subject, filter_subject)
        ]
        if not self._newest_only:
            return found
        return [stored for stored in found if self.newest(stored.subject) is stored]

    def newest(self, filter_subject: str) -> Stored | None:
        found = self._newest.get(filter_subject) or self._newest_of_job.get(filter_subject)
        if found is None or found.has_expired(self._now()):
            return None
        return found

    def subjects(self, filter_subject: str) -> dict[str, int]:
        """Returns the subjects of messages, each with their number, which is always 1 here."""
        now = self._now()
        return {
            subject: 1
            for subject, stored in self._newest.items()
            if matches(subject, filter_subject) and not stored.has_expired(now)
        }


def _of_job(subject: str) -> str:
    return f"{subject.rpartition('.')[0]}.>"


def matches(subject: str, filter_subject: str) -> bool:
    """Whether a subject matches a pattern with wildcards."""
    tokens, pattern = subject.split("."), filter_subject.split(".")
    if pattern[-1] == ">":
        pattern.pop()
        if len(tokens) <= len(pattern):
            return False
        tokens = tokens[: len(pattern)]
    return len(tokens) == len(pattern) and all(
        expected in {"*", token} for token, expected in zip(tokens, pattern, strict=True)
    )
