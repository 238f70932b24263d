"""What a look at an installation has found, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs_admin.cli.exit_codes import Exit


class Level(StrEnum):
    """In the order in which things should be seen to, the last first."""

    FINE = "fine"
    NOTE = "note"
    ATTENTION = "attention"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is what to do about it, if something is."""

    level: Level
    says: str
    remedy: str | None = None

    def to_json(self) -> dict[str, str]:
        told = {"level": self.level.value, "says": self.says}
        return told if self.remedy is None else {**told, "remedy": self.remedy}


def fine(says: str) -> Finding:
    return Finding(Level.FINE, says)


def note(says: str) -> Finding:
    return Finding(Level.NOTE, says)


def attention(says: str, remedy: str) -> Finding:
    return Finding(Level.ATTENTION, says, remedy)


def broken(says: str, remedy: str) -> Finding:
    return Finding(Level.BROKEN, says, remedy)


@dataclass(frozen=True, slots=True)
class Section:
    """`is_seen`: there was a right to look."""

    name: str
    findings: tuple[Finding, ...]
    is_seen: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`unreachable`: there was nothing to look at."""

    sections: tuple[Section, ...]
    unreachable: Exit | None = None

    def to_do(self) -> list[str]:
        """What is broken first; within that, in the order of the look, and each once."""
        found = [finding for section in self.sections for finding in section.findings]
        ordered = [
            finding.remedy
            for level in (Level.BROKEN, Level.ATTENTION)
            for finding in found
            if finding.level is level and finding.remedy is not None
        ]
        return list(dict.fromkeys(ordered))

    def not_seen(self) -> list[str]:
        return [section.name for section in self.sections if not section.is_seen]

    def verdict(self) -> str:
        unseen = self.not_seen()
        if self.to_do():
            return "What to do:"
        if unseen:
            return f"Nothing to do in what could be looked at; not seen: {', '.join(unseen)}."
        return "Nothing to do."

    @property
    def exit(self) -> Exit:
        if self.unreachable is not None:
            return self.unreachable
        return Exit.REFUSED if self.to_do() else Exit.OK

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.exit is Exit.OK,
            "sections": [
                {"name": each.name, "findings": [finding.to_json() for finding in each.findings]}
                for each in self.sections
            ],
            "toDo": self.to_do(),
            "notSeen": self.not_seen(),
        }
