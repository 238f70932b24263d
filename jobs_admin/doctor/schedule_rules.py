"""The rules of `doctor` about schedules. Without problems it says nothing about them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.doctor import About, Subject
from jobs_admin.doctor.findings import broken, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs_admin.api.views.doctor import Finding
    from trellis_jobs.model.schedules.address import ScheduleAddress

_SHOWN: Final = 3


def check_schedules(
    overdue: Sequence[ScheduleAddress],
    unreadable: Sequence[ScheduleAddress],
    unknown: Sequence[ScheduleAddress],
) -> list[Finding]:
    """`unreadable` are those whose records cannot be read.

    `unknown` are those of queues that no running worker knows.
    """
    left = [address for address in overdue if address not in set(unknown)]
    return [*_overdue(left), *_unknown(unknown), *_unreadable(unreadable)]


def _overdue(found: Sequence[ScheduleAddress]) -> Iterator[Finding]:
    for service, grouped in groupby(found, key=lambda each: each.service):
        addresses = list(grouped)
        yield broken(
            f"{_names(addresses)} overdue: no worker has fired what was due",
            f"start workers of {service}; if some run, see the runbook "
            '"A schedule does not fire" (docs/operate/runbooks.md)',
            _about(addresses[0]),
        )


def _unknown(found: Sequence[ScheduleAddress]) -> Iterator[Finding]:
    if found:
        yield broken(
            f"{_names(found)} not fired: no running worker knows the queue",
            "start a worker whose code declares the queue, or delete the schedule: "
            "`trellis-jobs schedules delete`",
        )


def _unreadable(found: Sequence[ScheduleAddress]) -> Iterator[Finding]:
    if found:
        yield warning(
            f"{_names(found)} unreadable to this version",
            "`trellis-jobs schedules get` says why: upgrade the admin runtime, install tzdata, or "
            "delete the schedule",
            _about(found[0]),
        )


def _about(schedule: ScheduleAddress) -> About:
    return About(
        subject=Subject.SCHEDULE,
        service=schedule.service,
        type=schedule.job_type,
        name=schedule.schedule,
    )


def _names(found: Sequence[ScheduleAddress]) -> str:
    names = ", ".join(map(str, found[:_SHOWN]))
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return f"{names}{more} {'is' if len(found) == 1 else 'are'}"
