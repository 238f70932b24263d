"""The findings of `doctor`, the list of what to do, and what needs attention now."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from jobs_admin.api.views.base import View


class Level(StrEnum):
    """From harmless to urgent."""

    FINE = "fine"
    NOTE = "note"
    WARNING = "warning"
    BROKEN = "broken"


class Subject(StrEnum):
    QUEUE = "queue"
    DEAD_JOBS = "dead-jobs"
    KEY = "key"
    SCHEDULE = "schedule"
    WORKER = "worker"


class About(View):
    """What a finding is about, so that a client can show it.

    `name` is the key, the name of the schedule, or the instance id of the worker.
    """

    subject: Subject
    service: str
    type: str | None = None
    name: str | None = None


class Finding(View):
    """`remedy` says what to do about it; None if nothing needs to be done.

    Without `about`, it is about the installation. `since` is when it began, if that is known.
    """

    level: Level
    message: str
    remedy: str | None = None
    about: About | None = None
    since: datetime | None = None


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


class AttentionView(View):
    """What is wrong now, the most urgent first: what is broken, then warnings, then notes.

    `not_seen` names the parts that could not be checked for lack of permission.
    """

    timestamp: datetime
    findings: tuple[Finding, ...]
    not_seen: tuple[str, ...] = ()
