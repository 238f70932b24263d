"""What needs attention now: the findings of the checks that someone should know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.doctor import AttentionView, Level

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from jobs_admin.api.views.doctor import Diagnosis, Finding

_URGENCY: Final = {Level.BROKEN: 0, Level.WARNING: 1, Level.NOTE: 2}


def attention(diagnoses: Iterable[Diagnosis], now: datetime) -> AttentionView:
    """Leaves out what is fine, and notes about the installation: they are in `doctor`.

    Notes about a queue or a worker stay, because someone paused it, or it has died.
    """
    parts = list(diagnoses)
    found = [finding for part in parts for each in part.sections for finding in each.findings]
    return AttentionView(
        timestamp=now,
        findings=tuple(sorted(filter(_matters, found), key=_urgency)),
        not_seen=tuple(name for part in parts for name in part.not_seen),
    )


def _matters(finding: Finding) -> bool:
    is_of_someone = finding.level is Level.NOTE and finding.about is not None
    return is_of_someone or finding.level in (Level.BROKEN, Level.WARNING)


def _urgency(finding: Finding) -> int:
    return _URGENCY[finding.level]
