"""The findings of `doctor`, and the list of what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs_admin.cli.exit_codes import Exit


class Level(StrEnum):
    """From harmless to urgent."""

    FINE = "fine"
    NOTE = "note"
    ATTENTION = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` says what to do about it; None if nothing needs to be done."""

    level: Level
    text: str
    remedy: str | None = None

    def to_json(self) -> dict[str, str]:
        body = {"level": self.level.value, "says": self.text}
        return body if self.remedy is None else {**body, "remedy": self.remedy}


def fine(text: str) -> Finding:
    return Finding(Level.FINE, text)


def note(text: str) -> Finding:
    return Finding(Level.NOTE, text)


def warning(text: str, remedy: str) -> Finding:
    return Finding(Level.ATTENTION, text, remedy)


def broken(text: str, remedy: str) -> Finding:
    return Finding(Level.BROKEN, text, remedy)


@dataclass(frozen=True, slots=True)
class Section:
    """`is_checked` is false if these credentials do not permit the check."""

    name: str
    findings: tuple[Finding, ...]
    is_checked: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`unreachable` is the exit code if no server could be reached."""

    sections: tuple[Section, ...]
    unreachable: Exit | None = None

    def to_do(self) -> list[str]:
        """The remedies of what is broken, then of warnings, each once, in the order of checks."""
        found = [finding for section in self.sections for finding in section.findings]
        ordered = [
            finding.remedy
            for level in (Level.BROKEN, Level.ATTENTION)
            for finding in found
            if finding.level is level and finding.remedy is not None
        ]
        return list(dict.fromkeys(ordered))

    def not_checked(self) -> list[str]:
        return [section.name for section in self.sections if not section.is_checked]

    def verdict(self) -> str:
        not_checked = self.not_checked()
        if self.to_do():
            return "What to do:"
        if not_checked:
            return f"Nothing to do. Not checked for lack of permission: {', '.join(not_checked)}."
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
            "notSeen": self.not_checked(),
        }
