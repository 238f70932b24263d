"""Make the findings of `doctor`, and the list of what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.api.views.doctor import About, Diagnosis, Finding, Level, Section, Subject

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime


def fine(text: str) -> Finding:
    return Finding(level=Level.FINE, message=text)


def note(text: str, about: About | None = None) -> Finding:
    return Finding(level=Level.NOTE, message=text, about=about)


def warning(
    text: str, remedy: str, about: About | None = None, since: datetime | None = None
) -> Finding:
    return Finding(level=Level.WARNING, message=text, remedy=remedy, about=about, since=since)


def broken(
    text: str, remedy: str, about: About | None = None, since: datetime | None = None
) -> Finding:
    return Finding(level=Level.BROKEN, message=text, remedy=remedy, about=about, since=since)


def about_queue(service: str, job_type: str) -> About:
    return About(subject=Subject.QUEUE, service=service, type=job_type)


def about_worker(service: str, instance: str) -> About:
    return About(subject=Subject.WORKER, service=service, name=instance)


def diagnosis(sections: Sequence[Section], not_seen: Collection[str] = ()) -> Diagnosis:
    """`not_seen` names the sections that could not be checked for lack of permission."""
    to_do = _remedies(sections)
    return Diagnosis(
        ok=not to_do,
        sections=tuple(sections),
        to_do=to_do,
        not_seen=tuple(section.name for section in sections if section.name in not_seen),
    )


def completed(found: Diagnosis, by_admin: Diagnosis) -> Diagnosis:
    """Replace sections that could not be checked with those of the admin runtime."""
    taken = {
        each.name: _by_admin(each)
        for each in by_admin.sections
        if each.name in found.not_seen and each.name not in by_admin.not_seen
    }
    sections = [taken.get(each.name, each) for each in found.sections]
    return diagnosis(sections, set(found.not_seen) - taken.keys())


def _by_admin(section: Section) -> Section:
    checked = note("checked by the admin runtime, because these credentials may not")
    return Section(name=section.name, findings=(checked, *section.findings))


def _remedies(sections: Sequence[Section]) -> tuple[str, ...]:
    """The remedies of what is broken, then of warnings, each once, in the order of checks."""
    found = [finding for section in sections for finding in section.findings]
    ordered = [
        finding.remedy
        for level in (Level.BROKEN, Level.WARNING)
        for finding in found
        if finding.level is level and finding.remedy is not None
    ]
    return tuple(dict.fromkeys(ordered))
