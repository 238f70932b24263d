"""The findings of `doctor`, and the list of what to do."""

from __future__ import annotations

from enum import StrEnum

from jobs_admin.api.views.base import View


class Level(StrEnum):
    """From harmless to urgent."""

    FINE = "fine"
    NOTE = "note"
    WARNING = "warning"
    BROKEN = "broken"


class Finding(View):
    """`remedy` says what to do about it; None if nothing needs to be done."""

    level: Level
    message: str
    remedy: str | None = None


class Section(View):
    """The findings of one part of the installation."""

    name: str
    findings: tuple[Finding, ...]


class Diagnosis(View):
    """`to_do` has the remedies of what is broken, then of warnings, each once.

    `not_seen` names the sections that could not be checked for lack of permission.
    """

    ok: bool
    sections: tuple[Section, ...]
    to_do: tuple[str, ...]
    not_seen: tuple[str, ...]
