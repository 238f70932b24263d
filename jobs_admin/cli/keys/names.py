"""Which key is meant: `SERVICE TYPE KEY`, or `SERVICE/TYPE KEY`."""

from __future__ import annotations

from dataclasses import dataclass

from jobs_admin.cli.exit_codes import Misused


@dataclass(frozen=True, slots=True)
class KeyName:
    service: str
    type: str
    key: str

    def __str__(self) -> str:
        return f"{self.key!r} of {self.service}/{self.type}"


def key_named(words: list[str]) -> KeyName:
    """A key may have slashes of its own, so only the first word is taken apart."""
    match words:
        case [service, of_type, key]:
            return KeyName(service, of_type, key)
        case [queue, key] if queue.count("/") == 1:
            service, of_type = queue.split("/")
            return KeyName(service, of_type, key)
        case _:
            raise Misused("say which key: SERVICE TYPE KEY, or SERVICE/TYPE KEY")
