"""Key arguments of the command line: `SERVICE TYPE KEY`, or `SERVICE/TYPE KEY`."""

from __future__ import annotations

from dataclasses import dataclass

from jobs_admin.cli.exit_codes import UsageError


@dataclass(frozen=True, slots=True)
class KeyName:
    service: str
    type: str
    key: str

    def __str__(self) -> str:
        return f"{self.key!r} of {self.service}/{self.type}"


def parse_key(words: list[str]) -> KeyName:
    """A key may contain slashes, so only the first word is split."""
    match words:
        case [service, job_type, key]:
            return KeyName(service, job_type, key)
        case [queue, key] if queue.count("/") == 1:
            service, job_type = queue.split("/")
            return KeyName(service, job_type, key)
        case _:
            raise UsageError("name the key: SERVICE TYPE KEY, or SERVICE/TYPE KEY")
